import { KubeError, readScheduling, setSchedulable } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { RoleName } from '../../../internal/role/index.ts';
import { ClusterError, withKubernetes } from '../../cluster/index.ts';
import { untilNothingMissing } from './await-role-change.ts';
import { missingPod } from './missing-pods.ts';

/** Value of the annotation of a Node that was cordoned by a drain for a role change, and not by an operator. */
export const CORDONED_BY_SET_ROLE = 'set-role';

/** The node after a role change. */
export interface SchedulingChange {
  readonly name: string;
  readonly roles: readonly RoleName[];
  /** Whether this command has added or removed the role worker. */
  readonly isWorkChanged: boolean;
}

/**
 * Waits until Kubernetes shows the pods of the control plane as ready, or no more, and the control-plane taint of the
 * Node matches its roles. Then uncordons the Node if a drain for a role change has cordoned it, in this run or in an
 * interrupted one. If an operator has cordoned it, it stays cordoned.
 * @throws NodesError `nodes-role-change-timeout`
 */
export async function awaitScheduling(context: CommandContext, pods: SchedulingChange): Promise<void> {
  const { name } = pods;
  const step = { code: 'node-pods-follow', title: `Waiting for the taint and the pods of ${name}`, name };
  await untilNothingMissing(context, step, () => look(context, pods));
}

/** What the Node still lacks, for the progress text; undefined if nothing. */
async function look(
  context: CommandContext,
  { name, roles, isWorkChanged }: SchedulingChange,
): Promise<string | undefined> {
  const { signal } = context;
  const isControlPlaneOnly = !roles.includes('worker');
  try {
    return await withKubernetes(context, async (client) => {
      const pod = await missingPod(client, name, signal);
      if (pod !== undefined) return pod;
      const now = await readScheduling(client, name, signal);
      const isOurCordon = now.cordonedBy === CORDONED_BY_SET_ROLE;
      if (!isWorkChanged && !isOurCordon) return undefined;
      if (now.hasControlPlaneTaint !== isControlPlaneOnly)
        return `waiting for ${isControlPlaneOnly ? 'taint on' : 'removal of the taint on'} ${name}`;
      if (isOurCordon) await setSchedulable(client, { name, isSchedulable: true }, { signal });
      return undefined;
    });
  } catch (error) {
    signal.throwIfAborted();
    const isUnknown = error instanceof ClusterError && error.code === 'cluster-no-kubeconfig';
    if (isWorkChanged && error instanceof KubeError) return printable(`retrying: ${error.message}`);
    if (!isUnknown && !(error instanceof KubeError)) throw error;
    // Only a warning: without a change of roles or without a kubeconfig, most probably nothing is left to do.
    context.host.warn(
      'node-pods-unseen',
      printable(`${name} may still be cordoned by an earlier role change: ${error.message}`),
      { node: name },
    );
    return undefined;
  }
}
