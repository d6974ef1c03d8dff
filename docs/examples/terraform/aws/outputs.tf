output "first" {
  description = "Address of the machine for `cluster init --node`."
  value       = aws_network_interface.machine[local.first].private_ip
}

output "api_endpoint" {
  description = "`apiServer.endpoint` of cluster.yaml: the load balancer."
  value       = "${aws_lb.api.dns_name}:6443"
}

output "machines" {
  description = "Addresses by node name."
  value       = { for name, interface in aws_network_interface.machine : name => interface.private_ip }
}

output "inventory" {
  description = "`join.inventory` of cluster.yaml."
  value       = module.provisioning.inventory
}
