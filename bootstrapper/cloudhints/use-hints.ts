import type { CloudHints } from './parse-hints.ts';

/**
 * The node name that a machine requests: the name in the provisioning, otherwise the name from the cloud; undefined if
 * the machine requests no name.
 */
export function nameFrom(
  { nodeName: provisioned }: { readonly nodeName?: string | undefined },
  { name: hinted }: CloudHints,
): string | undefined {
  return provisioned ?? hinted;
}

/**
 * The address of a machine: the provisioned address; otherwise the address that the cloud names, if the machine has it;
 * otherwise the first of its own addresses. undefined if the machine has no address.
 */
export function addressFrom(
  { address: provisioned }: { readonly address?: string | undefined },
  own: readonly string[],
  { address: hinted }: CloudHints,
): string | undefined {
  return provisioned ?? own.find((each) => each === hinted) ?? own[0];
}

/**
 * The topology labels of the node, which Kubernetes lets a kubelet set on its own node; undefined if there are none.
 */
export function topologyFrom({ region, zone }: CloudHints): Readonly<Record<string, string>> | undefined {
  const labels = {
    ...(region === undefined ? {} : { 'topology.kubernetes.io/region': region }),
    ...(zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone }),
  };
  return Object.keys(labels).length === 0 ? undefined : labels;
}
