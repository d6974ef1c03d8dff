import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Error catalog of local clusters: exit code, meaning and fix by code. */
export const miniErrors = defineErrors({
  'mini-tpm-manufacturer': {
    fault: 'system',
    exit: 'precondition',
    meaning:
      'The CA certificate of the software TPMs of this local cluster is missing: it was deleted, or swtpm_localca did not create it.',
    fix: 'Delete the local cluster with `cluster mini down` and create it again.',
  },
  'mini-no-agent': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The Debian package of the agent was not found, so no machine can be created.',
    fix: 'In a source checkout run `npm run build`; otherwise pass the package with --agent FILE.',
  },
  'mini-agent-timeout': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'The agent of a local machine did not publish its fingerprint in time; the error contains the last lines of its journal.',
    fix: 'Read the complete journal with `cluster mini exec NODE -- journalctl -u bootstrapper`.',
  },
  'mini-plan-invalid': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The list of machines of a local cluster cannot be read.',
    fix: 'Delete the local cluster with `cluster mini down` and create it again with `cluster mini up`.',
  },
  'mini-machine-refused': {
    fault: 'peer',
    exit: 'refused',
    meaning: 'The cluster refused to admit a machine.',
    fix: 'Run `cluster explain` for the machine that the error names.',
  },
  'mini-not-ready': {
    fault: 'system',
    exit: 'unhealthy',
    retryable: true,
    meaning: 'Machines did not become Ready in time; the error lists what each of them waits for.',
    fix: 'Run the same command again to continue waiting, or read the journal with `cluster mini exec NODE -- journalctl -u bootstrapper`.',
  },
  'mini-demo-timeout': {
    fault: 'system',
    exit: 'unhealthy',
    retryable: true,
    meaning: 'The cluster runs, but the sample chart does not respond.',
    fix: 'Check its pods with `cluster mini exec NODE -- kubectl get pods -A`. A cluster created without --demo has no sample chart: add it to cluster.yaml, or create the cluster again.',
  },
});

/** An error about local clusters, with a code of the catalog. */
export class MiniError extends errorClass(miniErrors) {}
