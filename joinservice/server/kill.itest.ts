import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createPublicKey, generateKeyPairSync, X509Certificate, type KeyObject } from 'node:crypto';
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
  READMISSIONS_PREFIX,
  REMOVED_PREFIX,
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
  closeOpened,
  opened,
  temporaryDirectory,
} from '../../internal/testing/index.ts';
import { CONTROL_PLANE_KEYS } from '../signer/index.ts';
import { TestMachine } from '../testing/index.ts';

const never = new AbortController().signal;
const clock = new SystemClock();
const MACHINES = 160;
/** A limit for hanging tests only; each of the two programs is started dozens of times. */
const LONGEST_MS = 600_000;
/**
 * The keys that the join service watches all the time. It watches the configuration twice: to decide about
 * machines, and to distribute it to nodes.
 */
const FOLLOWS = [
  ...[COLLATERAL_KEY, CONFIGURATION_KEY, CONFIGURATION_KEY, DOCUMENTS_PREFIX, IDENTITIES_PREFIX],
  ...[JOINS_PREFIX, KEYS_KEY, NODES_PREFIX, OPERATORS_PREFIX, READMISSIONS_PREFIX, REMOVED_PREFIX],
].map((key) => `${CLUSTER_PREFIX}${key}`);
/**
 * How many more attempts a machine may need after the killed program is back. Usually the first or second one
 * succeeds.
 */
const ASKS_AFTER_IT_IS_BACK = 20;

let etcd: TestEtcd;
let space: KeySpace;
let programs: JoinPrograms;
const keys: KeyObject[] = Array.from({ length: MACHINES }, () => generateKeyPairSync('ed25519').privateKey);
let used = 0;

beforeAll(async () => {
  const { path: directory } = opened(await temporaryDirectory());
  etcd = opened(await TestEtcd.create());
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
  programs = opened(await JoinPrograms.create(directory, world));
}, 180_000);

afterAll(closeOpened, 30_000);

function identityOf(key: KeyObject): string {
  const fingerprint = fingerprintOfKey(spkiDerOf(createPublicKey(key)));
  return `machine-key:${fingerprint.replace('sha256:', '')}`;
}

/** Returns a machine that no test has used yet. */
function newMachine(): { readonly machine: TestMachine; readonly name: string; readonly identity: string } {
  const key = keys[used];
  if (key === undefined) throw new Error(`the test has ${MACHINES} machines, and all of them are members`);
  const name = `m-${used++}`;
  return { machine: new TestMachine(keyHardware(key), key), name, identity: identityOf(key) };
}

/**
 * Repeats the join with the same key, as the machine’s agent does, until the machine has its ticket. Returns
 * the number of attempts. Attempts before the killed program is `back` are not counted.
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
      using locked = await machine.dial(programs.endpoint); // a second session, because the evidence of the first one does not show the node lock yet
      const { nodeCertificatePem } = await locked.ticketHere();
      return { asked, serial: new X509Certificate(nodeCertificatePem).serialNumber };
    } catch (error) {
      if (findCoded(error)?.retryable !== true) throw error;
      if (wasBack && ++inVain === ASKS_AFTER_IT_IS_BACK) throw error;
      await (isBack ? clock.sleep(50, never) : Promise.race([returned, clock.sleep(50, never)]));
    }
  }
}

/** Expects that all member records in etcd agree, and that this machine is a member exactly once. */
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

/** One of the requests to etcd and the signer that the join of a machine causes. */
interface Step {
  readonly by: ProgramName;
  readonly to: 'etcd' | 'signer';
  /** Names of the records in the request. */
  readonly about: string;
  /** The index among requests that look the same. */
  readonly occurrence: number;
}

/** Records requests and names them. */
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

/** All requests of one undisturbed join. */
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
  // without this wait, the reads of a starting program would count as steps
  expect(programs.followed).toEqual(FOLLOWS.toSorted());
  await expectOneMembership(machine, as);
  return steps.all;
}

function recordsIn(body: Buffer): string {
  const names = [...body.toString('latin1').matchAll(/\/cluster\/([a-z-]+)/g)].map(([, name = '']) => name);
  return [...new Set(names)].sort().join(' ');
}

/**
 * Kills `victim` once, at this request or at its answer, and starts it again as systemd would. Data that the
 * victim has not sent is never sent; data that it has not received is never received.
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

/** The operation at which the server was killed, and the total number of tickets that the signer signed. */
interface Killed {
  readonly step: string;
  readonly signatures: number;
}

/**
 * Kills `victim` at every request, and at the answer to every write. A completed read has changed nothing, so
 * the answer to a read is left out.
 */
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
    'after a kill of the join service at each of its requests and writes, the machine has one membership, and nothing was signed before the membership was stored',
    async () => {
      const killed = await killedEverywhere('joinservice', ({ by }) => by === 'joinservice');
      const isWrite = ({ step }: Killed): boolean => step.includes('audit');
      // There are two writes (admission and membership), and a kill before and after each.
      expect(killed.filter(isWrite).length).toBe(4);
      // The signer must sign nothing before the membership is recorded, because such a ticket could be lost.
      const committed = killed.findLastIndex(isWrite);
      expect(killed.slice(0, committed + 1).filter(({ signatures }) => signatures !== 1)).toEqual([]);
      expect(killed.find(({ step }) => step.startsWith('answer of signer'))?.signatures).toBe(2);
    },
    LONGEST_MS,
  );

  test(
    'after a kill of the signer at each of its reads and at its answer, the machine has one membership',
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
