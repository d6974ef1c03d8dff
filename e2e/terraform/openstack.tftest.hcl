# Plans and applies the example against a provider whose answers OpenTofu makes up. The variables are those of the tutorial.

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
