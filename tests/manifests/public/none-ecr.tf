resource "aws_ecr_repository" "vllm" {
  name                 = "inference/vllm-openai"
  image_tag_mutability = "IMMUTABLE"
}

resource "aws_cloudwatch_metric_alarm" "queue" {
  alarm_name          = "vllm-waiting"
  namespace           = "vllm"
  metric_name         = "num_requests_waiting"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 50
  evaluation_periods  = 3
  period              = 60
  statistic           = "Maximum"
  alarm_description   = "Raise --max-num-batched-tokens of `vllm serve`, or add replicas"
}

output "push" {
  value = "docker push ${aws_ecr_repository.vllm.repository_url}:v0.11.0"
}
