import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { create } from '@bufbuild/protobuf';
import { generateKeyPairSync } from 'node:crypto';
import { MachineKeyIssuer, proveKey } from '../../internal/attestation/machinekey/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { when } from '../../internal/event/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { createMachineKeys, FAKE_KEYS, FakeCluster } from '../../internal/testing/cluster/fake-cluster.ts';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { ClusterSpecSchema, InitRequestSchema } from '../../initproto/gen/init_pb.js';
import { Enrolment } from './enrolment.ts';
import type { Membership } from '../membership/index.ts';
import { createInitHandlers, InitJob, type InitServicePorts } from '../initserver/index.ts';
import { createJoinUpgrades, ensureTicketKeys, JoinClient, knownEndpoints } from '../joinclient/index.ts';
import { KUBELET_FILES } from '../kubernetes/index.ts';
import { NodeLock } from '../nodelock/index.ts';
import { FileEventStore, PhaseLog } from '../phases/index.ts';
import { NodeMembership, RoleValueStore } from '../roleserve/index.ts';
import { createEnrolmentHandlers } from './enrolment-handlers.ts';
import { AGENT_PATHS, createNodeState } from '../nodestate/index.ts';

const ROUNDS = 100;
const PASSING = ['New', 'Joining', 'Resuming'];
const clock = new SystemClock();
const ownersCluster = 'b'.repeat(32);
const spec = create(ClusterSpecSchema, {
  clusterName: 'blue',
  clusterId: ownersCluster,
  kubernetesVersion: 'v1.35.4',
  bundleManifest: Buffer.from('{}'),
  podSubnet: '198.19.0.0/17',
  serviceSubnet: '198.19.128.0/20',
  nodeName: 'n1',
  singleNode: true,
  kubernetesAdminCsr: Uint8Array.of(1),
  ownerCsr: Uint8Array.of(1),
  clusterUnlockKey: new Uint8Array(32),
});
const request = create(InitRequestSchema, { initId: '11111111-2222-4333-8444-555555555555', spec });

/** Yields to other tasks between any two calls, as a real disk does. */
function yieldingFiles(files: MemoryFiles): MemoryFiles {
  return new Proxy(files, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return async (...args: unknown[]) => {
        await waitIterations(1);
        return (member as (...all: unknown[]) => unknown).apply(target, args);
      };
    },
  });
}

/** A machine's disk and key, for any number of runs of its agent. */
class Machine {
  readonly disk = yieldingFiles(new MemoryFiles());
  readonly keys = createMachineKeys();
  readonly #cluster: FakeCluster;

  constructor(cluster: FakeCluster) {
    this.#cluster = cluster;
  }

  /** Starts enrolment, init handlers and join client, wired as in the agent. */
  async live(signal: AbortSignal) {
    const { log } = createMemoryLogger();
    for (const directory of [AGENT_PATHS.enrolment, AGENT_PATHS.init])
      await this.disk.makeDirectory(directory);
    const files = this.disk;
    const lock = new NodeLock({ files, path: AGENT_PATHS.lock, nowMs: () => clock.nowMs() });
    const store = new RoleValueStore();
    const phases = await PhaseLog.open({ store: new FileEventStore(files, AGENT_PATHS.events), clock, log });
    const ownAddress = (): string => '127.0.0.1';
    const job = new InitJob(
      { files, lock, phases, preflight: () => Promise.resolve(), ownAddress },
      AGENT_PATHS.init,
    );
    const enrolment = new Enrolment<Membership>({
      log,
      handlers: createEnrolmentHandlers({
        ...{ files, lock, job, ownAddress, log },
        state: createNodeState(files),
        node: new NodeMembership(store),
        clusterMembership: store.values.clusterMembership,
        joinClient: this.#joinClient(),
        ensureValidCertificates: (known) => Promise.resolve(known),
      }),
    });
    const handlers = createInitHandlers({
      ...{ job, phases, clock },
      machine: { hostname: () => 'n1' },
      retryNow: () => undefined,
      enrolmentFailure: () => undefined,
    } as unknown as InitServicePorts);
    const ended = enrolment.run(signal).catch(() => undefined);
    /** Sends an init request as an owner does. Resolves to the first response, or to the refusal. */
    const init = async (): Promise<'accepted' | { readonly code: string; readonly clusterId: string }> => {
      const hangUp = new AbortController();
      const peer = { kind: 'owner', publicKey: owner, session: new Uint8Array() } as const;
      const events = handlers.init(request, { peer, signal: hangUp.signal });
      try {
        for await (const _event of events) return 'accepted';
        throw new Error('the stream of an accepted init ended');
      } catch (error) {
        const { code, details } = error as { code: string; details: { clusterId: string } };
        return { code, clusterId: details.clusterId };
      } finally {
        hangUp.abort();
      }
    };
    /**
     * The state in which the enrolment ends. After an init this is CreatingCluster, because nothing here
     * creates the cluster.
     */
    const stands = async (): Promise<string> =>
      (await when(enrolment.status, (now) => !PASSING.includes(now.state), signal)).state;
    return { lock, init, stands, ended };
  }

  #joinClient(): JoinClient {
    const { nodeId, pubKeyDer, keyPem, privateKey } = this.keys;
    const privKey = new Secret(privateKey);
    return new JoinClient(
      {
        ...{ clock, log: createMemoryLogger().log, random: () => 0 },
        lookUp: () => Promise.reject(new Error('no name')),
        evidence: {
          proveKey: (label, session) => proveKey(label, session, privKey),
          readEnrolment: () => Promise.resolve(undefined),
          answerChallenge: () => Promise.reject(new Error('no TPM')),
        },
        checkMachine: () => Promise.resolve(),
        upgrade: createJoinUpgrades({
          issuers: [new MachineKeyIssuer({ privKey })],
          attestation: undefined,
          collateral: () => Promise.resolve({}),
          clock,
        }),
        keys: () =>
          ensureTicketKeys(this.disk, {
            ...{ at: KUBELET_FILES, nodeId, machineKeyPem: keyPem },
            evidence: {
              forTicket: () => Promise.resolve([]),
              readEnrolment: () => Promise.resolve(undefined),
            },
          }),
      },
      {
        sources: [knownEndpoints('test', () => [this.#cluster.endpoint])],
        ownerKeys: [this.#cluster.ownerKey],
        ...{ pinned: undefined, proxies: [] },
        readKnownCa: () => Promise.resolve({ trustedPem: undefined, generation: 1, floors: {} }),
        ...{ nodeId, pubKeyDer },
        introduction: () => ({
          ...{ agentVersion: '0.1.0', hostname: 'w1', address: '127.0.0.1', wantedName: 'w1' },
          wantedRoles: [],
        }),
        ownAddress: () => '127.0.0.1',
        keyNames: Object.keys(FAKE_KEYS),
        optionalKeyNames: ['rotation.json'],
      },
    );
  }
}

const owner = generateKeyPairSync('ed25519').publicKey;
let cluster: FakeCluster;
beforeEach(async () => {
  cluster = await FakeCluster.start(clock);
});
afterEach(() => cluster[Symbol.asyncDispose]());

/**
 * Delays the admission until the test calls `grant`. `left` resolves when the machine has ended its request.
 */
function holdAdmission(): { asked: Promise<void>; grant: () => void; left: Promise<void> } {
  const asked = Promise.withResolvers<void>();
  const granted = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  cluster.behaviour.decide = async function* (nodeId, signal) {
    asked.resolve();
    signal.addEventListener('abort', () => left.resolve(), { once: true });
    await granted.promise;
    yield* cluster.admitted(nodeId);
    await left.promise;
  };
  return { asked: asked.promise, grant: granted.resolve, left: left.promise };
}

async function waitIterations(count: number): Promise<void> {
  for (let iteration = 0; iteration < count; iteration++)
    await new Promise((resolve) => setImmediate(resolve));
}

test('if an init and a join admission arrive at the same instant, one wins, the other ends cleanly, and a restarted agent finds the winner (100 rounds)', async () => {
  const wins = { init: 0, join: 0 };
  // How many iterations of the event loop the admission starts before the init (negative: after it). Each round
  // corrects the number, so that both have a chance to win.
  let headStart = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const stop = new AbortController();
    const machine = new Machine(cluster);
    const { asked, grant, left } = holdAdmission();
    const life = await machine.live(stop.signal);
    await asked;
    const init = waitIterations(headStart).then(() => life.init());
    await waitIterations(-headStart);
    grant();
    const answer = await init;
    const lock = await life.lock.read();
    if (answer === 'accepted') {
      wins.init++;
      headStart++;
      expect(lock).toMatchObject({ by: 'init', clusterId: ownersCluster });
      expect(await life.stands()).toBe('CreatingCluster');
      expect(cluster.minted.get(machine.keys.nodeId)).toBeUndefined();
    } else {
      wins.join++;
      headStart--;
      expect(answer).toEqual({ code: 'initserver-other-cluster', clusterId: cluster.clusterId });
      expect(lock).toMatchObject({ by: 'join', clusterId: cluster.clusterId });
      expect(await life.stands()).toBe('Running');
      expect(cluster.minted.get(machine.keys.nodeId)).toBe(1);
    }
    await left; // the join client has stopped, whichever of the two won
    stop.abort(new Error('the agent stops'));
    await life.ended;
    await expectSameWinner(machine, answer === 'accepted' ? 'init' : 'join');
  }
  expect(Math.min(wins.init, wins.join)).toBeGreaterThan(ROUNDS / 20);
}, 600_000); // a limit against hanging only: a hundred rounds on a busy machine

/** Restarts the agent: the node lock is unchanged, and only the request that holds it is accepted again. */
async function expectSameWinner(machine: Machine, winner: 'init' | 'join'): Promise<void> {
  const stop = new AbortController();
  const asked = cluster.said.length;
  const life = await machine.live(stop.signal);
  expect(await life.stands()).toBe(winner === 'init' ? 'CreatingCluster' : 'Running');
  expect(await life.lock.read()).toMatchObject({ by: winner });
  expect(await life.init()).toEqual(
    winner === 'init' ? 'accepted' : { code: 'initserver-other-cluster', clusterId: cluster.clusterId },
  );
  expect(cluster.said.length).toBe(asked);
  stop.abort(new Error('the agent stops'));
  await life.ended;
}
