# A cluster on AWS: a network interface and an instance for each machine, a security group, and a network load balancer in front
# of the API servers. docs/tutorial/terraform.md has the steps.

terraform {
  required_version = ">= 1.6"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
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
  # One control plane in each zone, as far as there are subnets.
  subnets = { for at, name in local.names : name => var.subnet_ids[at % length(var.subnet_ids)] }
}

data "aws_subnet" "machines" {
  id = var.subnet_ids[0]
}

data "aws_vpc" "machines" {
  id = data.aws_subnet.machines.vpc_id
}

resource "aws_security_group" "machines" {
  name        = var.name
  description = "Machines of the cluster ${var.name}"
  vpc_id      = data.aws_vpc.machines.id
}

# Machines reach each other on every port: ARCHITECTURE.md has the list.
resource "aws_vpc_security_group_ingress_rule" "between_machines" {
  security_group_id            = aws_security_group.machines.id
  referenced_security_group_id = aws_security_group.machines.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_ingress_rule" "operator" {
  for_each          = toset([for port in [22, 6443, 9000, 9090, 9091] : tostring(port)])
  security_group_id = aws_security_group.machines.id
  cidr_ipv4         = var.operator_cidr
  ip_protocol       = "tcp"
  from_port         = tonumber(each.value)
  to_port           = tonumber(each.value)
}

# The load balancer asks the API servers for their readiness from the network of the machines.
resource "aws_vpc_security_group_ingress_rule" "load_balancer" {
  security_group_id = aws_security_group.machines.id
  cidr_ipv4         = data.aws_vpc.machines.cidr_block
  ip_protocol       = "tcp"
  from_port         = 6443
  to_port           = 6443
}

resource "aws_vpc_security_group_egress_rule" "all" {
  security_group_id = aws_security_group.machines.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}

resource "aws_network_interface" "machine" {
  for_each        = local.subnets
  subnet_id       = each.value
  security_groups = [aws_security_group.machines.id]
  tags            = { Name = each.key }
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
      address = aws_network_interface.machine[name].private_ip
      role    = contains(local.control_planes, name) ? "control-plane" : "worker"
    }
  }
}

resource "aws_instance" "machine" {
  for_each      = toset(local.names)
  ami           = var.image_id
  instance_type = var.instance_type
  key_name      = var.key_name
  user_data     = module.provisioning.user_data[each.value]
  tags          = { Name = each.value }

  primary_network_interface {
    network_interface_id = aws_network_interface.machine[each.value].id
  }

  root_block_device {
    volume_size = 40
    encrypted   = true
  }

  # Version 2 of the metadata service only, and no answer that crosses another hop: pods get none.
  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  lifecycle {
    # The user data is read once. A change of it must not replace a machine that holds a node.
    ignore_changes = [user_data]
  }
}

resource "aws_lb" "api" {
  name               = "${var.name}-api"
  load_balancer_type = "network"
  internal           = true
  subnets            = var.subnet_ids
  # A control plane that connects to the load balancer may be sent to itself, or to another zone.
  enable_cross_zone_load_balancing = true
}

resource "aws_lb_target_group" "api" {
  name        = "${var.name}-api"
  protocol    = "TCP"
  port        = 6443
  target_type = "ip"
  vpc_id      = data.aws_vpc.machines.id
  # With the address of the client kept, a control plane could not reach itself through the load balancer.
  preserve_client_ip = false

  # A control plane that joins or drains answers TCP before and after it serves: ask for its readiness.
  health_check {
    protocol = "HTTPS"
    path     = "/readyz"
    matcher  = "200"
    interval = 10
  }
}

resource "aws_lb_target_group_attachment" "api" {
  for_each         = toset(local.control_planes)
  target_group_arn = aws_lb_target_group.api.arn
  target_id        = aws_network_interface.machine[each.value].private_ip
  port             = 6443
}

resource "aws_lb_listener" "api" {
  load_balancer_arn = aws_lb.api.arn
  protocol          = "TCP"
  port              = 6443
  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.api.arn
  }
}
