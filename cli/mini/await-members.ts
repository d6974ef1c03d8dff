import { describeError } from '../../internal/errors/index.ts';
import { KubeClient, listNodes, listPods } from '../../internal/kube/index.ts';
import type { CommandContext } from '../app/command.ts';
import { OpenStep } from '../host/index.ts';
import { callCurator, newMutation, readWorkspace, readKubeAccess } from '../cluster/index.ts';
import { expectMachine, rolesFromNames } from '../nodes/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { grantForJoin } from '../sign/index.ts';
import { MiniError } from './errors.ts';
import type { MachineKind } from './machine-plan.ts';
import {
  describeWaiting,
  memberProgress,
  withUnreachableNote,
  type MemberProgress,
  type ClusterSnapshot,
} from './member-progress.ts';

const POLL_MS = 1000;

/** The labels that kubeadm gives to static pods of the control plane. */
const CONTROL_PLANE_PODS = { namespace: 'kube-system', labelSelector: 'tier=control-plane' };

/** A machine that is expected to join. */
export interface JoiningMachine {
  readonly name: string;
  readonly roles: readonly MachineKind[];
  /** The identity of the machine in join policies, "tpm-ek:HEX". */
  readonly identity: string;
}

/**
 * Shows the progress of each machine until all are Ready. Machines that were added to an existing local cluster
 * are not in the inventory of its configuration, so this function approves them. That is safe, because this
 * program created their TPMs.
 * @throws MiniError `mini-machine-refused`, `mini-not-ready`
 */
export async function awaitMembers(
  context: CommandContext,
  machines: readonly JoiningMachine[],
  limitMs: number,
): Promise<void> {
  const { clock } = context.ports;
  const startMs = clock.monotonicMs();
  const { layout } = await readWorkspace(context);
  using kube = new KubeClient(await readKubeAccess(context.ports.files, layout), context.ports);
  const shown = machines.map((machine) => ({ machine, step: openStep(context, machine) }));
  const remembered = new Set<string>();
  try {
    for (;;) {
      const seen = await readSnapshot(context, kube);
      const waiting = new Map<string, MemberProgress>();
      for (const { machine, step } of shown) {
        const progress = withUnreachableNote(memberProgress(machine, seen), seen.unreachable);
        if (progress.kind === 'ready') {
          void step.end();
          if (!remembered.has(machine.name)) await rememberControlPlane(context, machine, seen);
          remembered.add(machine.name);
          continue;
        }
        waiting.set(machine.name, progress);
        if (progress.kind === 'refused') throw refused(machine, progress);
        step.update(printable(progress.text));
        if (progress.kind === 'pending') await approve(context, machine, progress.joinId);
      }
      if (waiting.size === 0) break;
      const passedMs = clock.monotonicMs() - startMs;
      if (passedMs > limitMs)
        throw new MiniError('mini-not-ready', `machines not ready: ${describeWaiting(waiting, passedMs)}`);
      await clock.sleep(POLL_MS, context.signal);
    }
  } catch (error) {
    await Promise.all(shown.map(({ step }) => step.end(error)));
    throw error;
  }
  await Promise.all(shown.map(({ step }) => step.end()));
}

function openStep({ host }: CommandContext, { name, roles }: JoiningMachine): OpenStep {
  const kind = roles.includes('control-plane') ? 'control-plane' : 'worker';
  return new OpenStep(host, 'mini-member', `Joining machine ${name} (${kind})`);
}

/** Calls may fail while control planes start; then that part of the snapshot is empty. */
async function readSnapshot(context: CommandContext, kube: KubeClient): Promise<ClusterSnapshot> {
  const failures: unknown[] = [];
  const orElse = async <T>(without: T, ask: () => Promise<T>): Promise<T> => {
    try {
      return await ask();
    } catch (error) {
      context.signal.throwIfAborted();
      failures.push(error);
      return without;
    }
  };
  const [{ nodes, joins }, kubeNodes, controlPlanePods] = await Promise.all([
    orElse({ nodes: [], joins: [] }, () =>
      callCurator(context, async ({ curator, operatorApi }) => {
        const [listed, requests] = await Promise.all([curator.listNodes({}), operatorApi.listJoins({})]);
        return { nodes: listed.nodes, joins: requests.joins };
      }),
    ),
    orElse([], () => listNodes(kube, context.signal)),
    orElse([], () => listPods(kube, { ...CONTROL_PLANE_PODS, signal: context.signal })),
  ]);
  const seen = { nodes, joins, kubeNodes, controlPlanePods };
  return failures.length === 0 ? seen : { ...seen, unreachable: describeError(failures[0]) };
}

/**
 * Saves the node key of a control plane that joined, as an approval does: the owner signs new shared keys only if a known control
 * plane created them. The identity in the record was proved with a TPM that this program created.
 */
async function rememberControlPlane(
  context: CommandContext,
  { name, roles, identity }: JoiningMachine,
  { nodes }: ClusterSnapshot,
): Promise<void> {
  const node = nodes.find(({ admission }) => admission?.identity === identity);
  if (node === undefined || !roles.includes('control-plane')) return;
  await expectMachine(context, { name, nodeId: node.nodeId, identity });
}

async function approve(context: CommandContext, machine: JoiningMachine, joinId: string): Promise<void> {
  const value = { name: machine.name, roles: [...rolesFromNames(machine.roles)], labels: {} };
  const mutation = newMutation();
  const documents = await grantForJoin(context, joinId, value.roles);
  await callCurator(context, ({ operatorApi }) =>
    operatorApi.decideJoin({ join: joinId, decision: { case: 'approve', value }, documents, mutation }),
  );
}

function refused(
  machine: JoiningMachine,
  progress: { readonly code: string; readonly message: string },
): MiniError {
  return new MiniError(
    'mini-machine-refused',
    `machine ${machine.name} was refused: ${printable(`${progress.code} ${progress.message}`)}`,
  );
}
