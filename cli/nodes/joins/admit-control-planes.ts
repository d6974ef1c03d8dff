import { formatDuration } from '../../../internal/clock/index.ts';
import { nodeIdOfFingerprint } from '../../../internal/pki/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import { JoinState, type Join } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { callCurator } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';
import type { RoleName } from '../../../internal/role/index.ts';
import { expectMachine } from '../machine-pins.ts';
import { awaitReadyNode } from './await-ready-node.ts';
import { approve } from './joins.ts';

const POLL_MS = 1_000;
const REMOVED = 'join-decommissioned';
/** The inventory does not list the machine. The approval of an owner admits it all the same. */
const UNLISTED = 'join-unknown-machine';

/** A machine that an owner has chosen to be a control plane. */
export interface ChosenMachine {
  readonly name: string;
  /** The whole fingerprint of its key, as its console shows it. */
  readonly fingerprint: string;
}

/** What the machines become, and how long to wait for each step of each machine. */
export interface AdmitOptions {
  readonly roles: readonly RoleName[];
  readonly timeoutMs: number;
}

/**
 * Admits machines as control planes as soon as they ask to join, and waits until all of them are ready nodes. May be
 * repeated: a machine that was admitted before is only waited for.
 * @throws NodesError `nodes-not-asking`, `nodes-join-refused`, `nodes-approve-timeout`
 */
export async function admitControlPlanes(
  context: CommandContext,
  machines: readonly ChosenMachine[],
  options: AdmitOptions,
): Promise<void> {
  for (const machine of machines) await admit(context, machine, options);
  // Control planes join one after the other by themselves.
  for (const { name, fingerprint } of machines)
    await awaitReadyNode(context, { joinId: nodeIdOfFingerprint(fingerprint), name }, options.timeoutMs);
}

async function admit(
  context: CommandContext,
  { name, fingerprint }: ChosenMachine,
  { roles, timeoutMs }: AdmitOptions,
): Promise<void> {
  const { host, signal } = context;
  const { clock } = context.ports;
  // The ID follows from the fingerprint that the owner compared, so no curator can put another machine in its place.
  const joinId = nodeIdOfFingerprint(fingerprint);
  return host.step('node-admit', `Admitting ${name} as a control plane`, async (progress) => {
    const endMs = clock.monotonicMs() + timeoutMs;
    for (;;) {
      const { joins } = await callCurator(context, ({ operatorApi }) => operatorApi.listJoins({}));
      const join = joins.find((each) => each.joinId === joinId);
      if (join?.state === JoinState.APPROVED || join?.state === JoinState.JOINED) {
        // The inventory admitted it, or an earlier run of this command did. The workspace has to know the machine all the same:
        // it signs new shared keys only if a machine that it knows created them.
        await expectMachine(context, { name, nodeId: joinId, identity: join.identity });
        return;
      }
      const obstacle = obstacleOf(join, name);
      if (obstacle === undefined) {
        await approve(context, joinId, { name, roles, labels: {} });
        return;
      }
      progress.update(obstacle);
      if (clock.monotonicMs() >= endMs)
        throw new NodesError(
          'nodes-not-asking',
          `waiting ${formatDuration(timeoutMs)} for machine ${name} (${fingerprint}): ${obstacle}`,
        );
      await clock.sleep(POLL_MS, signal);
    }
  });
}

/** Why the machine cannot be approved yet. @throws NodesError `nodes-join-refused` */
function obstacleOf(join: Join | undefined, name: string): string | undefined {
  if (join === undefined) return 'it has not asked to join';
  if (join.code === REMOVED)
    return `it was removed before: run \`cluster node readmit ${printable(join.identity)}\``;
  if (join.state !== JoinState.REFUSED || join.code === UNLISTED) return undefined;
  const why = printable(`${join.code} ${join.message}`);
  throw new NodesError('nodes-join-refused', `machine ${name} was refused: ${why}`);
}
