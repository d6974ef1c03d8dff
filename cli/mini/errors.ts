import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const miniErrors = defineErrors({
  'mini-tpm-manufacturer': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The software TPMs of this local cluster have no manufacturer’s certificate: it was lost, or swtpm_localca did not make it.',
    fix: 'Remove the local cluster with `cluster mini down` and make it anew.',
  },
  'mini-no-agent': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The Debian package of the on-node agent is not there, so no local machine can be made.',
    fix: 'In a checkout run `npm run build`; otherwise name the package with --agent FILE.',
  },
  'mini-agent-timeout': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'The agent of a local machine did not show its fingerprint; the end of its journal is in the message.',
    fix: 'Read all of it with `cluster mini exec NODE -- journalctl -u bootstrapper`.',
  },
  'mini-plan-invalid': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The list of machines of a local cluster cannot be read.',
    fix: 'Make the local cluster anew: `cluster mini down`, then `cluster mini up`.',
  },
  'mini-machine-refused': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'The cluster refused a machine that was to become a member; its reason is in the message.',
    fix: 'Read `cluster explain` for the machine named in the message.',
  },
  'mini-not-ready': {
    fault: 'system',
    exit: 'unhealthy',
    retryable: true,
    meaning: 'Machines did not become Ready in time; the message says what each of them waits for.',
    fix: 'The same command waits again. Read the journal with `cluster mini exec NODE -- journalctl -u bootstrapper`.',
  },
  'mini-demo-timeout': {
    fault: 'system',
    exit: 'unhealthy',
    retryable: true,
    meaning: 'The cluster runs, but the sample chart does not answer.',
    fix: 'Look at its pods with `cluster mini exec NODE -- kubectl get pods -A`. A cluster that was made without --demo has no sample chart: add it to its cluster.yaml or make the cluster anew.',
  },
});

export type MiniErrorCode = keyof typeof miniErrors;

export class MiniError extends errorClass(miniErrors) {}
