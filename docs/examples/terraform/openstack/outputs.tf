output "first" {
  description = "Address of the machine for `cluster init --node`."
  value       = openstack_networking_port_v2.machine[local.first].all_fixed_ips[0]
}

output "api_endpoint" {
  description = "`apiServer.endpoint` of cluster.yaml: the load balancer."
  value       = "${openstack_lb_loadbalancer_v2.api.vip_address}:6443"
}

output "machines" {
  description = "Addresses by node name."
  value       = { for name, port in openstack_networking_port_v2.machine : name => port.all_fixed_ips[0] }
}

output "inventory" {
  description = "`join.inventory` of cluster.yaml."
  value       = module.provisioning.inventory
}
