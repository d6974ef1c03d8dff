# What the machines of a cluster are given, on any cloud: user data for cloud-init, and the entries of the inventory. It needs no
# provider. Nothing in it is secret: the owner's key is public, and the policy of the cluster decides who is admitted.

terraform {
  required_version = ">= 1.6"
}

variable "owner_keys" {
  description = "Public keys of the owners, as `cluster config generate` prints them (base64)."
  type        = list(string)
  validation {
    condition     = length(var.owner_keys) > 0
    error_message = "A machine without an owner key belongs to nobody."
  }
}

variable "machines" {
  description = "The machines by node name. `cluster init` is run on the one named by `first`; the others ask it to join."
  type = map(object({
    address = string
    role    = string
  }))
  validation {
    condition     = alltrue([for each in var.machines : contains(["control-plane", "worker"], each.role)])
    error_message = "A role is control-plane or worker."
  }
}

variable "first" {
  description = "Node name of the machine on which the cluster is created."
  type        = string
}

variable "tpm" {
  description = "Whether the machines have a TPM 2.0. Without one, a copy of a disk is a copy of the machine's identity."
  type        = bool
}

variable "agent_package" {
  description = "HTTPS address and SHA-256 of the Debian package of the agent; null: the image has it."
  type = object({
    url    = string
    sha256 = string
  })
  default = null
}

variable "identities" {
  description = "Identities of the machines by node name (`cluster node ls --joins`), once they are known."
  type        = map(string)
  default     = {}
}

locals {
  control_planes = sort([for name, each in var.machines : name if each.role == "control-plane"])

  provisioning = {
    for name, each in var.machines : name => merge(
      {
        version   = 1
        platform  = "metal"
        ownerKeys = var.owner_keys
        nodeName  = name
        address   = each.address
      },
      # A conditional of two objects needs one type, so the two are texts.
      jsondecode(var.tpm ? jsonencode({ tpm = { kind = "device", path = "/dev/tpmrm0" } }) : jsonencode({ tpm = { kind = "none" } })),
      name == var.first ? {} : {
        joinEndpoints = [for other in local.control_planes : var.machines[other].address if other != name]
      },
    )
  }

  # Stops at the first failure: cloud-init would continue. The same commands as those of `cluster node cloud-init --package`.
  install = var.agent_package == null ? ["systemctl", "restart", "bootstrapper.service"] : [
    "sh", "-euc",
    <<-EOT
    export DEBIAN_FRONTEND=noninteractive
    [ -e /etc/ssl/certs/ca-certificates.crt ] ||
      { apt-get update; apt-get install --yes ca-certificates; }
    deb=/var/tmp/cluster-agent.deb
    rm -f "$deb"
    /usr/lib/apt/apt-helper download-file "$1" "$deb" "SHA256:$${2:?no hash}"
    shift 2
    install() { apt-get install --yes --no-install-recommends "$@"; }
    install "$deb" "$@" || { apt-get update; install "$deb" "$@"; }
    systemctl restart bootstrapper.service
    EOT
    , "cluster-agent", var.agent_package.url, var.agent_package.sha256,
  ]
}

output "user_data" {
  description = "User data for cloud-init by node name."
  value = {
    for name, provisioning in local.provisioning : name => "#cloud-config\n${yamlencode({
      write_files = [{
        path        = "/etc/cluster/provisioning.json"
        permissions = "0600"
        owner       = "root:root"
        content     = jsonencode(provisioning)
      }]
      runcmd = [local.install]
    })}"
  }
}

output "inventory" {
  description = "`join.inventory` of cluster.yaml: the machines whose identity is known, without the first one."
  value = yamlencode([
    for name, each in var.machines : {
      identity = var.identities[name]
      name     = name
      roles    = [each.role]
    } if contains(keys(var.identities), name) && name != var.first
  ])
}
