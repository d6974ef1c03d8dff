import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const machineServiceErrors = defineErrors({
  'machineservice-endpoint-invalid': fault.operator.usage(
    'The endpoint is invalid. Expected HOST or HOST:PORT, with brackets around an IPv6 address before a port.',
    'Write the endpoint like `cp.example.org`, `192.0.2.1:9090` or `[2001:db8::1]:9090`; without a port, the default port is used.',
  ),
  'machineservice-recovery-key-unreadable': fault.peer.refused(
    'The machine cannot read the recovery key that was sent to it: the key was encrypted for another TPM or another connection. Nothing was changed.',
    'Run the command again. If this remains, compare the versions of CLI and agent.',
  ),
  'machineservice-code-mistyped': fault.operator.usage(
    'The code that was typed at the console has a typing error. Nothing was changed.',
    'Compare the named group with the code that the workstation shows, and type the whole code again.',
  ),
  'machineservice-code-refused': fault.operator.refused(
    'The code does not open the state disk of this machine. Nothing was changed.',
    'Press Enter to see the challenge, and run `cluster recover disk NODE --console` with it again. A code is only for the challenge of this boot and this disk, and only of an owner whose recovery key is in the provisioning file and was there when the disk was formatted.',
  ),
  'machineservice-share-refused': fault.operator.refused(
    'The state disk has no such share: several owners open it together, and its record has got new shares since. Nothing was changed.',
    'Run `cluster recover disk NODE` again: it reads the record again. At the console, restart the machine for a new challenge.',
  ),
  'machineservice-is-member': fault.operator.precondition(
    'This machine already belongs to a cluster, or is creating one, and cannot join another one.',
    'To move the machine to another cluster, run `cluster node reset NODE` in the workspace of its current cluster. If that cluster no longer exists, reset the machine as root (see `cluster node reset --help`).',
  ),
});

/** An error with a code of this directory. */
export class MachineServiceError extends errorClass(machineServiceErrors) {}
