import type { MachinePort } from '../../internal/platform/index.ts';

/** Names that systemd and the kernel give a machine that nobody named (hostname(5)). */
const NAMELESS = /^(localhost(\..*)?|\(none\)|)$/;
const DIGITS = 8;

/**
 * The machine with a name of its own. One that was started from an image has none, and a cluster needs different names: it is called
 * `node-` and the first 8 digits of its fingerprint, which its console shows.
 * @param fingerprint "sha256:" and 64 hex digits
 */
export function namedMachine(machine: MachinePort, fingerprint: string): MachinePort {
  const fallback = `node-${fingerprint.replace(/^sha256:/, '').slice(0, DIGITS)}`;
  return {
    hostname: () => {
      const name = machine.hostname();
      return NAMELESS.test(name) ? fallback : name;
    },
    architecture: () => machine.architecture(),
    addresses: () => machine.addresses(),
    bootId: () => machine.bootId(),
  };
}
