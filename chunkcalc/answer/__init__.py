"""What an answer is and how it is found: a question, the limits, the window, the verdict, what helps."""
