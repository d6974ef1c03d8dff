import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Clock } from '../../internal/clock/index.ts';
import { map, type Readable } from '../../internal/event/index.ts';
import { launcher, type Runnable, type Scope, type TreeSnapshot } from '../../internal/supervisor/index.ts';
import { Runnable_State, type NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CuratorDialer } from '../curatorclient/index.ts';
import type { Membership } from '../enrolment/index.ts';
import { planRoleFetch } from './rolefetch-worker.ts';
import type { KubernetesStatus, LocalControlPlane } from './values.ts';

/** How often the node looks at itself. What did not change is not pushed. */
const LOOK_MS = 5_000;
const PUSH_MS = 10_000;
/** The curator's first answer brings the interval; until then a short one does no harm. */
const FIRST_BEAT_MS = 1_000;

type Status = MessageInitShape<typeof NodeStatusSchema>;

export interface StatusPushOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly localControlPlane: Readable<LocalControlPlane | undefined>;
    readonly kubernetesStatus: Readable<KubernetesStatus | undefined>;
  };
  readonly curators: CuratorDialer;
  readonly clock: Clock;
  readonly facts: StatusFacts;
}

/** What the machine says of itself. */
export interface StatusFacts {
  readonly agentVersion: string;
  bootId(): Promise<string>;
  tree(): TreeSnapshot;
  certificates(): Promise<readonly { readonly name: string; readonly notAfterMs: number }[]>;
}

/** Tells the cluster how this node is: the whole status whenever it changed, and a heartbeat in between. */
export function statusPushWorker(options: StatusPushOptions): Runnable {
  let attempt = 0;
  return launcher({
    input: map(options.reads.clusterMembership, (membership) => ({ membership })),
    plan: ({ membership }) => planRoleFetch(membership),
    start: (scope, membership) => {
      scope.run('push', (push) => serve(options, membership, attempt++, push));
      return Promise.resolve();
    },
  });
}

async function serve(
  options: StatusPushOptions,
  membership: Membership,
  attempt: number,
  scope: Scope,
): Promise<void> {
  using connection = options.curators.dial(membership, attempt);
  const { client, endpoint } = connection;
  const { clock } = options;
  const { signal } = scope;
  scope.waiting(`${endpoint} to take the first status`);
  let pushed = '';
  const push = async (): Promise<void> => {
    const status = await statusOf(options, membership);
    const text = JSON.stringify(status, (_, value: unknown) =>
      typeof value === 'bigint' ? value.toString() : value,
    );
    if (text === pushed) return;
    await client.updateNodeStatus({ status }, { signal, timeoutMs: PUSH_MS });
    pushed = text;
  };
  await push();
  scope.healthy();
  scope.waiting(undefined);
  const looking = async (): Promise<never> => {
    for (;;) {
      await clock.sleep(LOOK_MS, signal);
      await push();
    }
  };
  const beating = async (): Promise<never> => {
    let intervalMs = FIRST_BEAT_MS;
    const beats = beatOn(() => intervalMs, clock, signal);
    for await (const answer of client.heartbeat(beats, { signal })) intervalMs = Number(answer.intervalMs);
    throw new Error(`the heartbeat stream to ${endpoint} ended`);
  };
  await Promise.race([looking(), beating()]);
}

/** The first beat at once, then one per interval that the curator asked for. */
async function* beatOn(intervalMs: () => number, clock: Clock, signal: AbortSignal): AsyncGenerator<object> {
  for (;;) {
    yield {};
    await clock.sleep(intervalMs(), signal);
  }
}

const STATES = {
  new: Runnable_State.NEW,
  healthy: Runnable_State.HEALTHY,
  done: Runnable_State.DONE,
  dead: Runnable_State.DEAD,
  canceled: Runnable_State.CANCELED,
} as const;

async function statusOf({ reads, facts }: StatusPushOptions, membership: Membership): Promise<Status> {
  const controlPlane = reads.localControlPlane.peek();
  const kubernetes = reads.kubernetesStatus.peek();
  const tree = facts.tree();
  const failed = tree
    .filter(({ lastError, state }) => lastError !== undefined && state !== 'healthy' && state !== 'done')
    .at(0);
  return {
    address: membership.nodeAddress,
    agentVersion: facts.agentVersion,
    kubernetesVersion: (kubernetes.set && kubernetes.value?.version) || '',
    bootId: await facts.bootId(),
    curatorEndpoint: (controlPlane.set && controlPlane.value?.curatorEndpoint) || '',
    runnables: tree.map((each) => ({
      path: each.path,
      state: STATES[each.state],
      sinceMs: BigInt(Math.round(each.sinceMs)),
      restarts: each.restarts,
      idleBecause: each.note ?? '',
      ...(each.lastError === undefined
        ? {}
        : { lastError: { code: '', message: each.lastError, timeMs: 0n } }),
    })),
    certificates: (await facts.certificates()).map(({ name, notAfterMs }) => ({
      name,
      notAfterMs: BigInt(notAfterMs),
    })),
    ...(failed?.lastError === undefined
      ? {}
      : {
          lastError: {
            code: '',
            message: `${failed.path}: ${failed.lastError}`,
            timeMs: BigInt(Math.round(failed.sinceMs)),
          },
        }),
  };
}
