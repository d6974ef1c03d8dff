import { beforeEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import {
  type CollateralItem,
  encodeBundle,
  MAX_UPLOAD_BYTES,
} from '../../internal/attestation/collateral/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import { TestAmd, TestIntel } from '../../internal/testing/evidence/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  MemoryFiles,
  settle,
  superviseForTest,
} from '../../internal/testing/index.ts';
import { issueCrl, TEST_NOW_MS } from '../../internal/testing/pki/index.ts';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import { ChecksummedFile, type Membership } from '../membership/index.ts';
import { type CachedCollateral, CollateralCache } from './collateral-cache.ts';
import { collateralWorker } from './collateral-worker.ts';
import { NodeCollateralError } from './errors.ts';
import { ProvisionedCollateral } from './provisioned-collateral.ts';

const PATH = '/state/collateral/collateral.json';
const BESIDE = '/etc/cluster/collateral.json';
const DAY_MS = 86_400_000;
const amd = new TestAmd('Milan');
const intel = new TestIntel();
const forger = new TestIntel();
const membership = { nodeId: 'n' } as unknown as Membership;

/** Everything of both makers, issued so many days ago, with this evaluation number. */
function documents({ days = 1, number = 17, maker = intel } = {}): readonly CollateralItem[] {
  const thisUpdateMs = TEST_NOW_MS - days * DAY_MS;
  const edit = (document: Record<string, unknown>): void => {
    document['issueDate'] = new Date(thisUpdateMs).toISOString().replace('.000', '');
    document['tcbEvaluationDataNumber'] = number;
  };
  const issuers = [maker.root, maker.authority, amd.ark];
  return [
    ...maker.collateral().certificates.map((der) => ({ kind: 'certificate', der }) as const),
    ...issuers.map((issuer) => ({ kind: 'crl', der: issueCrl({ issuer, thisUpdateMs }) }) as const),
    { kind: 'tcb-info', ...maker.tcbInfo(edit) },
    { kind: 'qe-identity', ...maker.qeIdentity(edit) },
  ];
}

const bundleOf = (items: readonly CollateralItem[]): Uint8Array =>
  Buffer.from(encodeBundle({ assembledMs: TEST_NOW_MS, items }));

let files: MemoryFiles;
let log: ReturnType<typeof createMemoryLogger>;
beforeEach(async () => {
  files = new MemoryFiles();
  log = createMemoryLogger();
  await files.makeDirectory('/etc/cluster');
});

async function openShelf(saved?: ChecksummedFile<CachedCollateral>): Promise<CollateralCache> {
  const shelf = new CollateralCache({
    saved: saved ?? new ChecksummedFile<CachedCollateral>(files, PATH),
    trust: { amd: amd.trust, intel: intel.trust },
    nowMs: () => TEST_NOW_MS,
    log: log.log,
  });
  await shelf.restore();
  return shelf;
}

describe('CollateralShelf', () => {
  test('has nothing before it was given anything', async () => {
    expect((await openShelf()).current).toEqual({});
  });

  test('has what it took, also in the next life of the agent', async () => {
    const given = bundleOf(documents());
    const shelf = await openShelf();
    expect(await shelf.accept(given)).toBe('taken');
    expect(shelf.current.snp?.crls).toHaveLength(1);
    expect(shelf.current.tdx).toMatchObject({ seenEvaluationNumber: 17 });
    const { current } = shelf;
    expect(await shelf.accept(given)).toBe('known');
    expect(shelf.current).toBe(current);
    const next = await openShelf();
    expect(next.current).toEqual(current);
    expect(next.givenSha256).toBe(createHash('sha256').update(given).digest('hex'));
  });

  test('is on disk before it is in force', async () => {
    const saved = new ChecksummedFile<CachedCollateral>(files, PATH);
    const shelf = await openShelf(saved);
    let atSave: unknown;
    const save = saved.save.bind(saved);
    const watching = Object.assign(saved, {
      save: (kept: CachedCollateral) => ((atSave = shelf.current), save(kept)),
    });
    await shelf.accept(bundleOf(documents()));
    expect([atSave, watching.path]).toEqual([{}, PATH]);
  });

  test('stays as it is when the disk takes nothing', async () => {
    const load = (): Promise<undefined> => Promise.resolve(undefined);
    const save = (): Promise<never> => Promise.reject(new Error('no space left'));
    const shelf = await openShelf({ load, save } as unknown as ChecksummedFile<CachedCollateral>);
    await expect(shelf.accept(bundleOf(documents()))).rejects.toThrow('no space left');
    expect([shelf.current, shelf.givenSha256]).toEqual([{}, '']);
  });

  const hostile = [
    { name: 'more than is ever handed on', given: () => new Uint8Array(MAX_UPLOAD_BYTES + 1) },
    { name: 'no bundle', given: () => Buffer.from('hello') },
    { name: 'one that is cut off', given: () => bundleOf(documents({ days: 0 })).subarray(0, 3000) },
    { name: 'one that another Intel signed', given: () => bundleOf(documents({ maker: forger, days: 0 })) },
    { name: 'one with an older number', given: () => bundleOf(documents({ number: 16, days: 0 })) },
    { name: 'one that is current and older', given: () => bundleOf(documents({ days: 2 })) },
  ];
  test.each(hostile)('refuses $name, and what it had stays, in memory and on disk', async ({ given }) => {
    const shelf = await openShelf();
    await shelf.accept(bundleOf(documents()));
    const [before, onDisk] = [shelf.current, await files.read(PATH, 1 << 22)];
    await expect(shelf.accept(given())).rejects.toBeInstanceOf(NodeCollateralError);
    expect(shelf.current).toBe(before);
    expect(await files.read(PATH, 1 << 22)).toEqual(onDisk);
  });

  test('a newer one without some lists takes no revocation back, and no number', async () => {
    const shelf = await openShelf();
    await shelf.accept(bundleOf(documents()));
    const [kept] = shelf.current.snp?.crls ?? [];
    const intelOnly = documents({ days: 0, number: 18 }).filter(
      (item) => !(item.kind === 'crl' && Buffer.from(item.der).includes('Micro Devices')),
    );
    await shelf.accept(bundleOf(intelOnly));
    expect(shelf.current.snp?.crls).toEqual([kept]);
    expect(shelf.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
    await shelf.accept(bundleOf([]));
    expect(shelf.current.snp?.crls).toEqual([kept]);
    await expect(shelf.accept(bundleOf(documents({ days: 0 })))).rejects.toMatchObject({
      cause: { code: 'tdx-evaluation-number' },
    });
  });

  test('two at once are compared with one another', async () => {
    const shelf = await openShelf();
    const newer = bundleOf(documents({ number: 18 }));
    const older = bundleOf(documents({ number: 17 }));
    const [first, second] = await Promise.allSettled([shelf.accept(newer), shelf.accept(older)]);
    expect([first.status, second.status]).toEqual(['fulfilled', 'rejected']);
    expect(shelf.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
  });

  test('starts empty, and says so, when what is on disk is damaged', async () => {
    await (await openShelf()).accept(bundleOf(documents()));
    await files.writeAtomic(PATH, '{"version":1}');
    expect((await openShelf()).current).toEqual({});
    expect(log.records.map(({ level }) => level)).toContain('error');
  });
});

describe('collateral beside the provisioning', () => {
  const beside = (shelf: CollateralCache) =>
    new ProvisionedCollateral({ files, path: BESIDE, cache: shelf, log: log.log });
  const warnings = (): number => log.records.filter(({ level }) => level === 'warn').length;

  test('is taken whenever it comes, and its absence is no problem', async () => {
    const shelf = await openShelf();
    const provisioned = beside(shelf);
    await provisioned.load();
    expect([shelf.current, warnings()]).toEqual([{}, 0]);
    await files.writeAtomic(BESIDE, bundleOf(documents()));
    await provisioned.load();
    expect(shelf.current.tdx).toMatchObject({ seenEvaluationNumber: 17 });
  });

  test('is no reason to step back behind what the cluster gave, and is reported once', async () => {
    const shelf = await openShelf();
    await shelf.accept(bundleOf(documents({ number: 18 })));
    await files.writeAtomic(BESIDE, bundleOf(documents()));
    const provisioned = beside(shelf);
    for (let looks = 0; looks < 3; looks++) await provisioned.load();
    expect(shelf.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
    expect(warnings()).toBe(1);
  });

  test('that is larger than any is not read', async () => {
    await files.writeAtomic(BESIDE, new Uint8Array(MAX_UPLOAD_BYTES + 1));
    await beside(await openShelf()).load();
    expect(warnings()).toBe(1);
  });
});

describe('the collateral worker', () => {
  async function createWorker() {
    const clusterMembership = new EventValue<Membership | undefined>();
    clusterMembership.set(undefined);
    const shelf = await openShelf();
    const asked: string[] = [];
    const cluster: { bundle: Uint8Array; failure: Error | undefined } = {
      bundle: new Uint8Array(),
      failure: undefined,
    };
    const fetchCollateral = ({ knownSha256 }: { knownSha256: Uint8Array }) => {
      const known = Buffer.from(knownSha256).toString('hex');
      asked.push(known);
      if (cluster.failure !== undefined) return Promise.reject(cluster.failure);
      const isKnown = createHash('sha256').update(cluster.bundle).digest('hex') === known;
      return Promise.resolve({ bundle: isKnown ? new Uint8Array() : cluster.bundle });
    };
    const curator = { endpoint: 'c:1', of: () => ({ fetchCollateral }) } as unknown as CuratorConnection;
    const curators: Curators = { use: (work, { signal }) => work(curator, signal) };
    const clock = new FakeClock();
    const worker = collateralWorker({
      reads: { clusterMembership },
      ...{ curators, cache: shelf, clock, random: () => 0.5 },
    });
    return { clusterMembership, shelf, asked, cluster, clock, worker };
  }
  test('asks nobody before this node is a member', async () => {
    const { asked, worker } = await createWorker();
    await using _tree = superviseForTest(worker);
    await settle();
    expect(asked).toEqual([]);
  });

  test('takes what the cluster has at once, and what is new within minutes', async () => {
    const { clusterMembership, shelf, asked, cluster, clock, worker } = await createWorker();
    cluster.bundle = bundleOf(documents());
    await using _tree = superviseForTest(worker);
    clusterMembership.set(membership);
    await settle();
    expect(shelf.current.tdx).toMatchObject({ seenEvaluationNumber: 17 });
    await clock.advance(10 * 60_000);
    cluster.bundle = bundleOf(documents({ number: 18 }));
    await clock.advance(10 * 60_000);
    await settle();
    expect(shelf.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
    expect(asked).toHaveLength(3);
    expect(asked[1]).not.toBe('');
  });

  test('keeps what it has when the cluster sends a bad one, says so once, and asks on', async () => {
    const { clusterMembership, shelf, asked, cluster, clock, worker } = await createWorker();
    cluster.bundle = bundleOf(documents());
    await using tree = superviseForTest(worker);
    const errors = (): number => tree.records.filter(({ level }) => level === 'error').length;
    clusterMembership.set(membership);
    await settle();
    const before = shelf.current;
    cluster.bundle = bundleOf(documents({ maker: forger }));
    for (let looks = 0; looks < 3; looks++) await clock.advance(10 * 60_000);
    await settle();
    expect(shelf.current).toBe(before);
    expect(errors()).toBe(1);
    cluster.failure = new Error('nobody serves this');
    await clock.advance(10 * 60_000);
    cluster.failure = undefined;
    cluster.bundle = bundleOf(documents({ number: 18 }));
    await clock.advance(10 * 60_000);
    await settle();
    expect(shelf.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
    expect(asked).toHaveLength(6);
  });
});
