# A cluster on OpenStack: a network port and a server for each machine, a security group, and a load balancer (Octavia) in front
# of the API servers. docs/tutorial/terraform.md has the steps.

terraform {
  required_version = ">= 1.6"
  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = "~> 3.4"
    }
  }
}

locals {
  names = concat(
    [for at in range(var.control_planes) : "${var.name}-c${at + 1}"],
    [for at in range(var.workers) : "${var.name}-w${at + 1}"],
  )
  control_planes = slice(local.names, 0, var.control_planes)
  first          = local.control_planes[0]
}

data "openstack_networking_subnet_v2" "machines" {
  subnet_id = var.subnet_id
}

resource "openstack_networking_secgroup_v2" "machines" {
  name        = var.name
  description = "Machines of the cluster ${var.name}"
}

# Machines reach each other on every port: ARCHITECTURE.md has the list.
resource "openstack_networking_secgroup_rule_v2" "between_machines" {
  direction         = "ingress"
  ethertype         = "IPv4"
  remote_group_id   = openstack_networking_secgroup_v2.machines.id
  security_group_id = openstack_networking_secgroup_v2.machines.id
}

resource "openstack_networking_secgroup_rule_v2" "operator" {
  for_each          = toset([for port in [22, 6443, 9000, 9090, 9091] : tostring(port)])
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "tcp"
  port_range_min    = tonumber(each.value)
  port_range_max    = tonumber(each.value)
  remote_ip_prefix  = var.operator_cidr
  security_group_id = openstack_networking_secgroup_v2.machines.id
}

# The load balancer is in the subnet of the machines.
resource "openstack_networking_secgroup_rule_v2" "load_balancer" {
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "tcp"
  port_range_min    = 6443
  port_range_max    = 6443
  remote_ip_prefix  = data.openstack_networking_subnet_v2.machines.cidr
  security_group_id = openstack_networking_secgroup_v2.machines.id
}

resource "openstack_networking_port_v2" "machine" {
  for_each           = toset(local.names)
  name               = each.value
  network_id         = data.openstack_networking_subnet_v2.machines.network_id
  security_group_ids = [openstack_networking_secgroup_v2.machines.id]
  fixed_ip {
    subnet_id = var.subnet_id
  }
}

module "provisioning" {
  source        = "../provisioning"
  owner_keys    = var.owner_keys
  first         = local.first
  tpm           = var.tpm
  agent_package = var.agent_package
  identities    = var.identities
  machines = {
    for name in local.names : name => {
      address = openstack_networking_port_v2.machine[name].all_fixed_ips[0]
      role    = contains(local.control_planes, name) ? "control-plane" : "worker"
    }
  }
}

# Control planes on different hosts, as far as the cloud has them.
resource "openstack_compute_servergroup_v2" "control_planes" {
  name     = "${var.name}-control-planes"
  policies = ["soft-anti-affinity"]
}

resource "openstack_compute_instance_v2" "machine" {
  for_each    = toset(local.names)
  name        = each.value
  image_id    = var.image_id
  flavor_name = var.flavor_name
  key_pair    = var.key_pair
  user_data   = module.provisioning.user_data[each.value]

  network {
    port = openstack_networking_port_v2.machine[each.value].id
  }

  dynamic "scheduler_hints" {
    for_each = contains(local.control_planes, each.value) ? [1] : []
    content {
      group = openstack_compute_servergroup_v2.control_planes.id
    }
  }

  lifecycle {
    # The user data is read once. A change of it must not replace a machine that holds a node.
    ignore_changes = [user_data]
  }
}

resource "openstack_lb_loadbalancer_v2" "api" {
  name          = "${var.name}-api"
  vip_subnet_id = var.subnet_id
}

resource "openstack_lb_listener_v2" "api" {
  name            = "${var.name}-api"
  loadbalancer_id = openstack_lb_loadbalancer_v2.api.id
  protocol        = "TCP"
  protocol_port   = 6443
  # kubectl logs --follow and watches are idle for long.
  timeout_client_data = 14400000
  timeout_member_data = 14400000
}

resource "openstack_lb_pool_v2" "api" {
  name        = "${var.name}-api"
  listener_id = openstack_lb_listener_v2.api.id
  protocol    = "TCP"
  lb_method   = "ROUND_ROBIN"
}

# A control plane that joins or drains answers TCP before and after it serves: ask for its readiness.
resource "openstack_lb_monitor_v2" "api" {
  pool_id        = openstack_lb_pool_v2.api.id
  type           = "HTTPS"
  url_path       = "/readyz"
  expected_codes = "200"
  delay          = 5
  timeout        = 3
  max_retries    = 2
}

resource "openstack_lb_members_v2" "api" {
  pool_id = openstack_lb_pool_v2.api.id
  dynamic "member" {
    for_each = toset(local.control_planes)
    content {
      name          = member.value
      address       = openstack_networking_port_v2.machine[member.value].all_fixed_ips[0]
      protocol_port = 6443
      subnet_id     = var.subnet_id
    }
  }
}
