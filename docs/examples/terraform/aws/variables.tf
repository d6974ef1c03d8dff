variable "name" {
  description = "Name of the cluster; names of machines begin with it."
  type        = string
}

variable "control_planes" {
  description = "Number of control planes: 1, or an odd number from 3."
  type        = number
  default     = 3
  validation {
    condition     = var.control_planes % 2 == 1
    error_message = "An even number of control planes tolerates no more failures than one less."
  }
}

variable "workers" {
  description = "Number of workers."
  type        = number
  default     = 2
}

variable "owner_keys" {
  description = "Public keys of the owners, as `cluster config generate` prints them (base64)."
  type        = list(string)
}

variable "identities" {
  description = "Identities of machines by node name, once they are known."
  type        = map(string)
  default     = {}
}

variable "agent_package" {
  description = "HTTPS address and SHA-256 of the Debian package of the agent; null: the image has it."
  type = object({
    url    = string
    sha256 = string
  })
  default = null
}

variable "operator_cidr" {
  description = "Where operators connect from."
  type        = string
}

variable "tpm" {
  description = "Whether the image has NitroTPM enabled (tpm-support v2.0)."
  type        = bool
  default     = true
}

variable "subnet_ids" {
  description = "Subnets of the machines and of the load balancer, one in each availability zone."
  type        = list(string)
}

variable "image_id" {
  description = "AMI of Debian 12 with cloud-init."
  type        = string
}

variable "instance_type" {
  description = "At least 2 processors and 4 GiB of memory; a Nitro type for a TPM."
  type        = string
  default     = "m7i.large"
}

variable "key_name" {
  description = "Name of the key pair for ssh."
  type        = string
}
