import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error catalog of local clusters: exit code, meaning and fix by code. */
export const miniErrors = defineErrors({
  'mini-tpm-manufacturer': fault.system.precondition(
    'The CA certificate of the software TPMs of this local cluster is missing: it was deleted, or swtpm_localca did not create it.',
    'Delete the local cluster with `cluster mini down` and create it again.',
  ),
  'mini-no-agent': fault.operator.precondition(
    'The Debian package of the agent was not found, so no machine can be created.',
    'In a source checkout run `npm run build`; otherwise pass the package with --agent FILE.',
  ),
  'mini-agent-timeout': retryable.system.unreachable(
    'The agent of a local machine did not publish its fingerprint in time; the error contains the last lines of its journal or console.',
    'In a container, read the complete journal with `cluster mini exec NODE -- journalctl -u bootstrapper`. Of a virtual machine, read the file with its console, which the message names.',
  ),
  'mini-plan-invalid': fault.operator.precondition(
    'The list of machines of a local cluster cannot be read.',
    'Delete the local cluster with `cluster mini down` and create it again with `cluster mini up`.',
  ),
  'mini-ip-family-other': fault.operator.precondition(
    'The local cluster exists with networks of other IP families than --ip-family names. Nothing was changed.',
    'Leave --ip-family out, or delete the local cluster with `cluster mini down` and create it again.',
  ),
  'mini-machines-other': fault.operator.precondition(
    'The local cluster exists with machines of another type than --machines names. Nothing was changed.',
    'Leave --machines out, or delete the local cluster with `cluster mini down` and create it again.',
  ),
  'mini-vm-option': fault.operator.usage(
    'An option of `cluster mini up` is for containers only. Nothing was changed.',
    'Leave the option out, or leave out `--machines vm`.',
  ),
  'mini-drill-exists': fault.operator.precondition(
    'A local cluster with this name exists, and no drill created it. Nothing was changed.',
    'Choose another name with --name, or delete the existing cluster with `cluster mini down`.',
  ),
  'mini-machine-refused': fault.peer.refused(
    'The cluster refused to admit a machine.',
    'Run `cluster explain` for the machine that the error names.',
  ),
  'mini-not-ready': retryable.system.unhealthy(
    'Machines did not become Ready in time; the error lists what each of them waits for.',
    'Run the same command again to continue waiting, or read the journal with `cluster mini exec NODE -- journalctl -u bootstrapper`.',
  ),
  'mini-demo-timeout': retryable.system.unhealthy(
    'The cluster runs, but the sample chart does not respond.',
    'Check the pods of the chart with `cluster mini exec NODE -- kubectl get pods -A`. A cluster created without --demo has no sample chart: add it to cluster.yaml, or create the cluster again.',
  ),
});

/** An error about local clusters, with a code of the catalog. */
export class MiniError extends errorClass(miniErrors) {}
