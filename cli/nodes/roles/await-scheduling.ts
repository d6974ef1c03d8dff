import { KubeError, readScheduling, setSchedulable } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { RoleName } from './role-names.ts';
import { ClusterError, withKubernetes } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';

/** What a node is cordoned by while pods leave it for a change of its roles. */
export const CORDONED_BY_SET_ROLE = 'set-role';

const POLL_MS = 1_000;
const SETTLE_MS = 10 * 60 * 1000;

export interface SchedulingChange {
  readonly name: string;
  readonly roles: readonly RoleName[];
  /** Whether this very command has given it ordinary work, or taken it. */
  readonly isWorkChanged: boolean;
}

/**
 * The end of a change of roles, as Kubernetes sees it: ordinary pods are kept off the node, or are not, as its roles say;
 * then the cordon ends that a drain for its roles has left, of this command or of an earlier one that was interrupted.
 * What an operator has cordoned stays so.
 */
export async function awaitScheduling(context: CommandContext, pods: SchedulingChange): Promise<void> {
  const { clock } = context.ports;
  const title = `Waiting for Kubernetes to follow ${pods.name}`;
  await context.host.step('node-pods-follow', title, async (progress) => {
    const deadlineMs = clock.monotonicMs() + SETTLE_MS;
    for (;;) {
      const text = await look(context, pods);
      if (text === undefined) return;
      progress.update(text);
      if (clock.monotonicMs() > deadlineMs)
        throw new NodesError(
          'nodes-role-change-timeout',
          `waiting for ${pods.name} for ${SETTLE_MS / 1000} s: ${text}`,
        );
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

/** What is still missing. */
async function look(
  context: CommandContext,
  { name, roles, isWorkChanged }: SchedulingChange,
): Promise<string | undefined> {
  const { signal } = context;
  const isControlPlaneOnly = !roles.includes('worker');
  try {
    return await withKubernetes(context, async (client) => {
      const now = await readScheduling(client, name, signal);
      const isOurCordon = now.cordonedBy === CORDONED_BY_SET_ROLE;
      if (!isWorkChanged && !isOurCordon) return undefined;
      if (now.hasControlPlaneTaint !== isControlPlaneOnly)
        return `ordinary pods are ${isControlPlaneOnly ? 'not yet' : 'still'} kept off ${name}`;
      if (isOurCordon) await setSchedulable(client, { name, isSchedulable: true }, { signal });
      return undefined;
    });
  } catch (error) {
    signal.throwIfAborted();
    const isUnknown = error instanceof ClusterError && error.code === 'cluster-no-kubeconfig';
    if (isWorkChanged && error instanceof KubeError) return printable(`asking again: ${error.message}`);
    if (!isUnknown && !(error instanceof KubeError)) throw error;
    // Its roles are what they were, or nobody here can ask: most probably nothing has to be done.
    context.host.warn(
      'node-pods-unseen',
      printable(`Whether ${name} is still cordoned for a change of its roles is not known: ${error.message}`),
      { node: name },
    );
    return undefined;
  }
}
