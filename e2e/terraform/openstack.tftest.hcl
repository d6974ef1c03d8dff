# Plans and applies the example against a provider whose answers OpenTofu makes up.

mock_provider "openstack" {
  mock_resource "openstack_networking_port_v2" {
    defaults = {
      all_fixed_ips = ["10.0.0.21"]
    }
  }
  mock_resource "openstack_lb_loadbalancer_v2" {
    defaults = {
      vip_address = "10.0.0.10"
    }
  }
  mock_data "openstack_networking_subnet_v2" {
    defaults = {
      cidr = "10.0.0.0/24"
    }
  }
}

variables {
  name          = "prod"
  owner_keys    = ["iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="]
  operator_cidr = "192.0.2.0/24"
  subnet_id     = "0a8eee1b-5ac6-4f9b-8f0f-3f4e6f6d9b11"
  image_id      = "7d1b7d2b-58f4-4a70-9d1e-4d5a2c1f3c11"
  flavor_name   = "m1.medium"
  key_pair      = "ops"
}

run "machines" {
  assert {
    condition     = length(openstack_compute_instance_v2.machine) == 5
    error_message = "three control planes and two workers"
  }
  assert {
    condition     = length(openstack_lb_members_v2.api.member) == 3
    error_message = "the load balancer has one member for each control plane"
  }
  assert {
    condition     = strcontains(openstack_compute_instance_v2.machine["prod-w1"].user_data, "joinEndpoints")
    error_message = "a worker knows where to join"
  }
  assert {
    condition     = !strcontains(openstack_compute_instance_v2.machine["prod-c1"].user_data, "joinEndpoints")
    error_message = "the first machine joins no cluster"
  }
  assert {
    condition     = output.api_endpoint == "10.0.0.10:6443"
    error_message = "the API endpoint is the load balancer"
  }
}

run "even_number_of_control_planes" {
  command = plan
  variables {
    control_planes = 2
  }
  expect_failures = [var.control_planes]
}
