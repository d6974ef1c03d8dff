import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createPublicKey, generateKeyPairSync, X509Certificate, type KeyObject } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ChainVerifier } from '../../internal/audit/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { Namespace, type KeySpace } from '../../internal/etcd/index.ts';
import { fingerprintOfKey, spkiDerOf } from '../../internal/pki/index.ts';
import {
  AUDIT_PREFIX,
  CLUSTER_PREFIX,
  COLLATERAL_KEY,
  CONFIGURATION_KEY,
  DOCUMENTS_PREFIX,
  IDENTITIES_PREFIX,
  JOINS_PREFIX,
  KEYS_KEY,
  nodeNameKey,
  NODES_PREFIX,
  OPERATORS_PREFIX,
  records,
} from '../../internal/records/index.ts';
import {
  recordClusterSettings,
  JoinPrograms,
  TestCluster,
  TestEtcd,
  untilServing,
  type RecordedMessage,
  type ProgramName,
  keyHardware,
} from '../../internal/testing/index.ts';
import { CONTROL_PLANE_KEYS } from '../signer/index.ts';
import { TestMachine } from '../testing/index.ts';

const never = new AbortController().signal;
const clock = new SystemClock();
const MACHINES = 160;
/** Against hanging only; each of the two programs is started dozens of times. */
const LONGEST_MS = 600_000;
/** What the join service reads and follows on nobody's behalf. Collateral once to judge by it, once to hand it on. */
const FOLLOWS = [
  ...[COLLATERAL_KEY, COLLATERAL_KEY, CONFIGURATION_KEY, DOCUMENTS_PREFIX, IDENTITIES_PREFIX],
  ...[JOINS_PREFIX, KEYS_KEY, NODES_PREFIX, OPERATORS_PREFIX],
].map((key) => `${CLUSTER_PREFIX}${key}`);
/** A machine that asks a join service which is there again gets its ticket at once, or the next time. */
const ASKS_AFTER_IT_IS_BACK = 20;

let directory: string;
let etcd: TestEtcd;
let space: KeySpace;
let programs: JoinPrograms;
const keys: KeyObject[] = Array.from({ length: MACHINES }, () => generateKeyPairSync('ed25519').privateKey);
let used = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-kill-'));
  etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  const root = await etcd.connect('root', member.endpoint);
  await untilServing(root);
  space = new Namespace(root, CLUSTER_PREFIX);
  const cluster = await TestCluster.create(space, () => clock.nowMs());
  const inventory = keys.map((key, i) => ({ identity: identityOf(key), name: `m-${i}` }));
  await recordClusterSettings(space, cluster, {
    attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
    join: { policy: 'inventory', inventory },
  });
  const world = { etcd, member, cluster, keyNames: CONTROL_PLANE_KEYS, follows: FOLLOWS };
  programs = await JoinPrograms.create(directory, world);
}, 180_000);

afterAll(async () => {
  await programs[Symbol.asyncDispose]();
  await etcd[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
}, 30_000);

function identityOf(key: KeyObject): string {
  const fingerprint = fingerprintOfKey(spkiDerOf(createPublicKey(key)));
  return `machine-key:${fingerprint.replace('sha256:', '')}`;
}

/** The next machine that nobody has seen yet. */
function newMachine(): { readonly machine: TestMachine; readonly name: string; readonly identity: string } {
  const key = keys[used];
  if (key === undefined) throw new Error(`the test has ${MACHINES} machines, and all of them are members`);
  const name = `m-${used++}`;
  return { machine: new TestMachine(keyHardware(key), key), name, identity: identityOf(key) };
}

/**
 * Asks as its agent does: with the same key, until it has its ticket. Answers how often it had to ask. How long a killed
 * program takes to come `back` is the machine's affair; what counts is how often one has to ask from then on.
 */
async function becomesMember(
  machine: TestMachine,
  back: Promise<void> = Promise.resolve(),
): Promise<{ readonly asked: number; readonly serial: string }> {
  let isBack = false;
  let inVain = 0;
  const returned = back.then(() => {
    isBack = true;
  });
  for (let asked = 1; ; asked++) {
    const wasBack = isBack;
    try {
      using session = await machine.dial(programs.endpoint);
      await session.admitted();
      using locked = await machine.dial(programs.endpoint); // an agent shows its lock with the commit
      const { nodeCertificatePem } = await locked.ticketHere();
      return { asked, serial: new X509Certificate(nodeCertificatePem).serialNumber };
    } catch (error) {
      if (findCoded(error)?.retryable !== true) throw error;
      if (wasBack && ++inVain === ASKS_AFTER_IT_IS_BACK) throw error;
      await (isBack ? clock.sleep(50, never) : Promise.race([returned, clock.sleep(50, never)]));
    }
  }
}

/** Everything that etcd has about members agrees, and this machine is one, once. */
async function expectOneMembership(
  { nodeId }: TestMachine,
  as: { readonly name: string; readonly identity: string },
): Promise<void> {
  const [{ entries: nodes }, { entries: identities }, { entries: audit }] = await Promise.all([
    space.list(NODES_PREFIX, { signal: never }),
    space.list(IDENTITIES_PREFIX, { signal: never }),
    space.list(AUDIT_PREFIX, { signal: never }),
  ]);
  const members = nodes
    .filter(({ key }) => key.endsWith('/record'))
    .map(({ key, value }) => records.node.decode(key, value));
  expect(members.filter(({ name }) => name === as.name)).toMatchObject([{ nodeId, state: 'UP' }]);
  const owners = identities.map(({ key, value }) => records.identity.decode(key, value).nodeId);
  expect(owners.toSorted()).toEqual(
    members
      .filter(({ name }) => name !== 'first')
      .map((each) => each.nodeId)
      .toSorted(),
  );
  const named = await space.get(nodeNameKey(as.name), { signal: never });
  expect(new TextDecoder().decode(named?.value)).toBe(nodeId);
  const join = await space.get(records.join.key(nodeId), { signal: never });
  expect(records.join.decode('', join?.value ?? new Uint8Array()).state).toBe('joined');
  const verifier = new ChainVerifier();
  const verdicts = audit
    .map(({ value }) => verifier.next(value))
    .filter(({ subject }) => subject === nodeId)
    .map(({ detail }) => detail['verdict']);
  expect(verdicts).toEqual(['admitted', 'joined']);
}

/** A request that one machine's joining causes, in their order. */
interface Step {
  readonly by: ProgramName;
  readonly to: 'etcd' | 'signer';
  /** Which records it names. */
  readonly about: string;
  /** Of requests that look the same, the how manieth it is. */
  readonly occurrence: number;
}

/** Names requests as they come by. */
class Steps {
  readonly all: Step[] = [];

  next({ by, to, body }: RecordedMessage): Step {
    const about = recordsIn(body);
    const same = this.all.filter((step) => step.by === by && step.to === to && step.about === about);
    const step = { by, to, about, occurrence: same.length };
    this.all.push(step);
    return step;
  }
}

/** All of them, from one machine that nothing happens to. */
async function stepsOfOneJoin(): Promise<readonly Step[]> {
  const steps = new Steps();
  programs.onMessage = (message) => {
    if (message.direction === 'request') steps.next(message);
    return true;
  };
  const { machine, ...as } = newMachine();
  const { asked } = await becomesMember(machine);
  programs.onMessage = () => true;
  expect(asked).toBe(1);
  expect(programs.followed).toEqual(FOLLOWS.toSorted()); // else a start's reads are among the steps
  await expectOneMembership(machine, as);
  return steps.all;
}

function recordsIn(body: Buffer): string {
  const names = [...body.toString('latin1').matchAll(/\/cluster\/([a-z-]+)/g)].map(([, name = '']) => name);
  return [...new Set(names)].sort().join(' ');
}

/**
 * Kills `victim` once, at this request or its answer, and starts it again as systemd would: what it has not sent is never
 * sent, what it has not received is never received.
 */
function killAt(
  victim: ProgramName,
  at: Step,
  direction: RecordedMessage['direction'],
): { readonly back: Promise<void> } {
  const back = Promise.withResolvers<void>();
  const steps = new Steps();
  let call: string | undefined;
  let isOver = false;
  programs.onMessage = (message) => {
    if (isOver) return true;
    if (message.direction === 'request') {
      const { by, to, about, occurrence } = steps.next(message);
      if (by === at.by && to === at.to && about === at.about && occurrence === at.occurrence)
        call = message.call;
    }
    if (message.call !== call || message.direction !== direction) return true;
    isOver = true;
    programs
      .kill(victim)
      .then(() => programs.start(victim))
      .then(back.resolve, back.reject);
    return false;
  };
  return { back: back.promise };
}

/** What the killed one was doing, and for how many tickets the signer signed in the end. */
interface Killed {
  readonly step: string;
  readonly signatures: number;
}

/** A read that is over has changed nothing: its answer is as good as the request that comes next. */
async function killedEverywhere(
  victim: ProgramName,
  isHit: (step: Step) => boolean,
): Promise<readonly Killed[]> {
  const killed: Killed[] = [];
  for (const step of (await stepsOfOneJoin()).filter(isHit))
    for (const direction of ['request', 'answer'] as const) {
      const changes = step.about.includes('audit') || step.to === 'signer';
      if (direction === 'answer' && !changes) continue;
      const { machine, ...as } = newMachine();
      const signedBefore = programs.signed.length;
      const { back } = killAt(victim, step, direction);
      const { asked } = await becomesMember(machine, back);
      const name = `${direction} of ${step.to}: ${step.about}`;
      expect(`${name}, asked again: ${asked > 1}`).toBe(`${name}, asked again: true`);
      await back;
      await expectOneMembership(machine, as);
      const signed = programs.signed.slice(signedBefore);
      expect(new Set(signed)).toEqual(new Set([machine.nodeId]));
      killed.push({ step: name, signatures: signed.length });
    }
  return killed;
}

describe('the join service, killed during a join that the machine repeats with the same key', () => {
  test(
    'of the join service, at each of its requests and writes: one membership, minted last',
    async () => {
      const killed = await killedEverywhere('joinservice', ({ by }) => by === 'joinservice');
      const isWrite = ({ step }: Killed): boolean => step.includes('audit');
      expect(killed.filter(isWrite).length).toBe(4); // admission and commit, each before and after it happened
      // Until the membership is on record nothing has been signed that could be lost.
      const committed = killed.findLastIndex(isWrite);
      expect(killed.slice(0, committed + 1).filter(({ signatures }) => signatures !== 1)).toEqual([]);
      expect(killed.find(({ step }) => step.startsWith('answer of signer'))?.signatures).toBe(2);
    },
    LONGEST_MS,
  );

  test(
    'of the signer, at each of its reads and with its answer: one membership',
    async () => {
      const killed = await killedEverywhere('signer', ({ by, to }) => by === 'signer' || to === 'signer');
      expect(killed.map(({ step }) => step)).toEqual(
        expect.arrayContaining([
          'request of signer: ',
          'answer of signer: ',
          'request of etcd: nodes',
          'request of etcd: configuration',
        ]),
      );
    },
    LONGEST_MS,
  );
});
