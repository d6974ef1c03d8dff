import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const machineServiceErrors = defineErrors({
  'machineservice-endpoint-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'An endpoint is none: HOST or HOST:PORT is expected, IPv6 addresses in brackets where a port follows.',
    fix: 'Correct the endpoint named in the message.',
  },
  'machineservice-is-member': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'This machine belongs to a cluster already, or creates one; nobody can direct it elsewhere.',
    fix: 'If it is to join another cluster, run `cluster node reset NODE` in the one it belongs to; if that is no more, make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
});

export type MachineServiceErrorCode = keyof typeof machineServiceErrors;

export class MachineServiceError extends errorClass(machineServiceErrors) {}
