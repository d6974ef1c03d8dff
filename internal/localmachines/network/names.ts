import { LocalMachineError } from '../errors.ts';

/** Names of clusters and nodes: they become host names, cgroup names and link names. */
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,18}[a-z0-9])?$/;

/** The name, or an error that says what a name looks like. */
export function parseName(name: string, of: 'cluster' | 'node'): string {
  if (!NAME.test(name)) {
    throw new LocalMachineError(
      'localmachines-invalid-name',
      `naming ${of} ${JSON.stringify(name)}: at most 20 lower-case letters, digits and dashes`,
    );
  }
  return name;
}

/**
 * Everything a local cluster leaves in the kernel carries its number, unique on the machine:
 * `clu7` the host's link, `clu7-n1.scope` a node's cgroup, `clu7-n1.tpm.scope` its TPM's.
 * Cleaning up goes by these names alone and needs no record.
 */
export function linkName(number: number): string {
  return `clu${number}`;
}

export function machineName(number: number, node: string): string {
  return `${linkName(number)}-${node}`;
}

export function nodeScope(number: number, node: string): string {
  return `${machineName(number, node)}.scope`;
}

/** A dot cannot be in a node's name, so no node's scope is called like another one's TPM. */
export function tpmScope(number: number, node: string): string {
  return `${machineName(number, node)}.tpm.scope`;
}

/** Whether a cgroup belongs to cluster `number`. */
export function isScopeOf(number: number, scope: string): boolean {
  return scope.startsWith(`${linkName(number)}-`) && scope.endsWith('.scope');
}
