import { LocalMachineError } from '../errors.ts';

/** The names of clusters and nodes become host names, cgroup names and link names. */
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,18}[a-z0-9])?$/;

/** Checks a name. @throws LocalMachineError `localmachines-invalid-name` */
export function parseName(name: string, of: 'cluster' | 'node'): string {
  if (!NAME.test(name)) {
    throw new LocalMachineError(
      'localmachines-invalid-name',
      `invalid ${of} name ${JSON.stringify(name)}: at most 20 lower-case letters, digits and dashes are allowed`,
    );
  }
  return name;
}

/**
 * Each local cluster has a number that is unique on the machine. The names of all its kernel objects contain this
 * number: `clu7` is the link of the host, `clu7-n1.scope` is the cgroup of node n1, `clu7-n1.tpm.scope` is the cgroup
 * of the TPM of this node. These names are sufficient to remove a cluster.
 */
export function linkName(number: number): string {
  return `clu${number}`;
}

/** The name of the container of a node. */
export function machineName(number: number, node: string): string {
  return `${linkName(number)}-${node}`;
}

/** The cgroup scope of a node. */
export function nodeScope(number: number, node: string): string {
  return `${machineName(number, node)}.scope`;
}

/** The cgroup scope of a node's TPM. The name of a node has no dot, so no scope of a node has this name. */
export function tpmScope(number: number, node: string): string {
  return `${machineName(number, node)}.tpm.scope`;
}

/** The cgroup scope of the DHCP server of a cluster. No other scope of it ends like this. */
export function dhcpScope(number: number): string {
  return `${machineName(number, 'switch')}.dhcp.scope`;
}

/** Whether a cgroup belongs to cluster `number`. */
export function isScopeOf(number: number, scope: string): boolean {
  return scope.startsWith(`${linkName(number)}-`) && scope.endsWith('.scope');
}
