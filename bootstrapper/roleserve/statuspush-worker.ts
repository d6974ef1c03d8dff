import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Clock } from '../../internal/clock/index.ts';
import { childSignal, withTimeout } from '../../internal/cleanup/index.ts';
import { combine, map, type Readable, type Watcher } from '../../internal/event/index.ts';
import type { KeyStage } from '../../internal/keyset/index.ts';
import { launcher, type Runnable, type TreeSnapshot } from '../../internal/supervisor/index.ts';
import { Runnable_State, type NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import type { Membership } from '../enrolment/index.ts';
import { CuratorAnnouncement } from './curator-announcement.ts';
import { planRoleFetch } from './rolefetch-worker.ts';
import type { KubernetesStatus, LocalControlPlane, RoleSet } from './values.ts';

/** How often the node looks at itself. What did not change is not pushed. */
const LOOK_MS = 5_000;
const PUSH_MS = 10_000;
/** The curator's first answer brings the interval; until then a short one does no harm. */
const FIRST_BEAT_MS = 1_000;
/** A curator that takes beats and answers none may have lost them: another one is asked before this node counts as silent. */
const ANSWER_MS = 5_000;

type Status = MessageInitShape<typeof NodeStatusSchema>;

export interface StatusPushOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly localControlPlane: Readable<LocalControlPlane | undefined>;
    readonly localRoles: Readable<RoleSet | undefined>;
    readonly kubernetesStatus: Readable<KubernetesStatus | undefined>;
    readonly localKeys: Readable<KeyStage | undefined>;
  };
  readonly curators: Curators;
  readonly clock: Clock;
  readonly facts: StatusFacts;
}

/** What the machine says of itself. */
export interface StatusFacts {
  readonly agentVersion: string;
  bootId(): Promise<string>;
  tree(): TreeSnapshot;
  certificates(): Promise<readonly { readonly name: string; readonly notAfterMs: number }[]>;
  /** Whether private halves of the keys that control planes share are here. */
  holdsKeys(): Promise<boolean>;
}

/** Tells the cluster how this node is: the whole status whenever it changed, and a heartbeat in between. */
export function statusPushWorker(options: StatusPushOptions): Runnable {
  return launcher({
    input: map(options.reads.clusterMembership, (membership) => ({ membership })),
    plan: ({ membership }) => planRoleFetch(membership),
    start: (scope, membership) => {
      scope.run('push', (push) => {
        push.waiting('a curator to take the first status');
        let isHealthy = false;
        const onPushed = (): void => {
          if (!isHealthy) push.healthy();
          isHealthy = true;
          push.waiting(undefined);
        };
        const announcement = new CuratorAnnouncement(options);
        const work = (curator: CuratorConnection, signal: AbortSignal): Promise<void> =>
          serve(options, membership, { curator, announcement, signal, onPushed });
        return options.curators.use(work, { signal: push.signal });
      });
      return Promise.resolve();
    },
  });
}

/** A curator that takes over is told everything anew: what the last one kept is not known. */
async function serve(options: StatusPushOptions, membership: Membership, at: Serving): Promise<void> {
  const { signal } = at;
  const { client, endpoint } = at.curator;
  const { clock, reads } = options;
  let pushed = '';
  const push = async (): Promise<void> => {
    const curatorEndpoint = await at.announcement.endpoint(client, { nodeId: membership.nodeId, signal });
    const status = { ...(await statusOf(options, membership)), curatorEndpoint };
    const text = JSON.stringify(status, (_, value: unknown) =>
      typeof value === 'bigint' ? value.toString() : value,
    );
    if (text === pushed) return;
    await client.updateNodeStatus({ status }, { signal, timeoutMs: PUSH_MS });
    pushed = text;
  };
  await push();
  at.onPushed();
  const looking = async (): Promise<never> => {
    const { localControlPlane: plane, kubernetesStatus: kubernetes, localKeys: keys } = reads;
    using changes = combine({ plane, kubernetes, keys }).watch();
    await changes.next(signal);
    for (;;) {
      await changeOrLook(changes, clock, signal);
      await push();
    }
  };
  const beating = async (): Promise<never> => {
    let intervalMs = FIRST_BEAT_MS;
    const beats = beatOn(() => intervalMs, clock, signal);
    const answers = client.heartbeat(beats, { signal })[Symbol.asyncIterator]();
    const next = (): ReturnType<typeof answers.next> =>
      withTimeout({ what: `beating to ${endpoint}`, ms: intervalMs + ANSWER_MS, clock, signal }, () =>
        answers.next(),
      );
    for (let answer = await next(); answer.done !== true; answer = await next())
      intervalMs = Number(answer.value.intervalMs);
    throw new Error(`the heartbeat stream to ${endpoint} ended`);
  };
  await Promise.race([looking(), beating()]);
}

interface Serving {
  readonly curator: CuratorConnection;
  readonly announcement: CuratorAnnouncement;
  readonly onPushed: () => void;
  readonly signal: AbortSignal;
}

/** What others wait for is told at once; the rest at the next look. */
async function changeOrLook(changes: Watcher<unknown>, clock: Clock, signal: AbortSignal): Promise<void> {
  using child = childSignal(signal);
  const waits = [changes.next(child.signal), clock.sleep(LOOK_MS, child.signal)];
  try {
    await Promise.race(waits);
  } finally {
    child.abort(new Error('looked'));
    await Promise.allSettled(waits);
  }
}

/** The first beat at once, then one per interval that the curator asked for. */
async function* beatOn(intervalMs: () => number, clock: Clock, signal: AbortSignal): AsyncGenerator<object> {
  for (;;) {
    yield {};
    await clock.sleep(intervalMs(), signal);
  }
}

function keysToWire({ generation, phase }: KeyStage) {
  return { generation: BigInt(generation), phase };
}

const STATES = {
  new: Runnable_State.NEW,
  healthy: Runnable_State.HEALTHY,
  done: Runnable_State.DONE,
  dead: Runnable_State.DEAD,
  canceled: Runnable_State.CANCELED,
} as const;

async function statusOf({ reads, facts }: StatusPushOptions, membership: Membership): Promise<Status> {
  const kubernetes = reads.kubernetesStatus.peek();
  const keys = reads.localKeys.peek();
  const tree = facts.tree();
  const failed = tree
    .filter(({ lastError, state }) => lastError !== undefined && state !== 'healthy' && state !== 'done')
    .at(0);
  return {
    address: membership.nodeAddress,
    agentVersion: facts.agentVersion,
    kubernetesVersion: (kubernetes.set && kubernetes.value?.version) || '',
    bootId: await facts.bootId(),
    holdsKeys: await facts.holdsKeys(),
    ...(keys.set && keys.value !== undefined ? { keys: keysToWire(keys.value) } : {}),
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
