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

const PATH = '/state/collateral/collateral.json';
const BESIDE = '/etc/cluster/collateral.json';
const DAY_MS = 86_400_000;
const amd = new TestAmd('Milan');
const intel = new TestIntel();
const forger = new TestIntel();
const membership = { nodeId: 'n' } as unknown as Membership;

/** All collateral documents of AMD and Intel, issued `days` days ago, with this evaluation number. */
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

async function openCache(saved?: ChecksummedFile<CachedCollateral>): Promise<CollateralCache> {
  const cache = new CollateralCache({
    files,
    provisionedPath: BESIDE,
    saved: saved ?? new ChecksummedFile<CachedCollateral>(files, PATH),
    trust: { amd: amd.trust, intel: intel.trust },
    clock: new FakeClock(TEST_NOW_MS),
    log: log.log,
  });
  await cache.restore();
  return cache;
}

describe('CollateralCache', () => {
  test('a new cache is empty before the first bundle', async () => {
    expect((await openCache()).current).toEqual({});
  });

  test('has the accepted bundle, even after a restart of the agent', async () => {
    const given = bundleOf(documents());
    const cache = await openCache();
    await cache.accept(given);
    expect(cache.current.snp?.crls).toHaveLength(1);
    expect(cache.current.tdx).toMatchObject({ seenEvaluationNumber: 17 });
    const { current } = cache;
    await cache.accept(given);
    expect(cache.current).toBe(current);
    const next = await openCache();
    expect(next.current).toEqual(current);
    expect(next.givenSha256).toBe(createHash('sha256').update(given).digest('hex'));
  });

  test('saves a bundle before the bundle becomes current', async () => {
    const saved = new ChecksummedFile<CachedCollateral>(files, PATH);
    const cache = await openCache(saved);
    let atSave: unknown;
    const save = saved.save.bind(saved);
    const watching = Object.assign(saved, {
      save: (kept: CachedCollateral) => ((atSave = cache.current), save(kept)),
    });
    await cache.accept(bundleOf(documents()));
    expect([atSave, watching.path]).toEqual([{}, PATH]);
  });

  test('keeps the current collateral if saving a bundle fails', async () => {
    const load = (): Promise<undefined> => Promise.resolve(undefined);
    const save = (): Promise<never> => Promise.reject(new Error('no space left'));
    const cache = await openCache({ load, save } as unknown as ChecksummedFile<CachedCollateral>);
    await expect(cache.accept(bundleOf(documents()))).rejects.toThrow('no space left');
    expect([cache.current, cache.givenSha256]).toEqual([{}, '']);
  });

  const hostile = [
    {
      name: 'a bundle above the size limit',
      given: () => Buffer.concat([bundleOf(documents({ days: 0 })), Buffer.alloc(MAX_UPLOAD_BYTES, ' ')]),
    },
    { name: 'bytes that are not a bundle', given: () => Buffer.from('hello') },
    { name: 'a truncated bundle', given: () => bundleOf(documents({ days: 0 })).subarray(0, 3000) },
    { name: 'a bundle signed by another root', given: () => bundleOf(documents({ maker: forger, days: 0 })) },
    {
      name: 'a bundle with an older evaluation number',
      given: () => bundleOf(documents({ number: 16, days: 0 })),
    },
    { name: 'a valid bundle older than the current one', given: () => bundleOf(documents({ days: 2 })) },
  ];
  test.each(hostile)('refuses $name and keeps the current one, in memory and on disk', async ({ given }) => {
    const cache = await openCache();
    await cache.accept(bundleOf(documents()));
    const [before, onDisk] = [cache.current, await files.read(PATH, 1 << 22)];
    await expect(cache.accept(given())).rejects.toBeInstanceOf(NodeCollateralError);
    expect(cache.current).toBe(before);
    expect(await files.read(PATH, 1 << 22)).toEqual(onDisk);
  });

  test('keeps current CRLs and the evaluation number if a newer bundle lacks them', async () => {
    const cache = await openCache();
    await cache.accept(bundleOf(documents()));
    const [kept] = cache.current.snp?.crls ?? [];
    const intelOnly = documents({ days: 0, number: 18 }).filter(
      (item) => !(item.kind === 'crl' && Buffer.from(item.der).includes('Micro Devices')),
    );
    await cache.accept(bundleOf(intelOnly));
    expect(cache.current.snp?.crls).toEqual([kept]);
    expect(cache.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
    await cache.accept(bundleOf([]));
    expect(cache.current.snp?.crls).toEqual([kept]);
    await expect(cache.accept(bundleOf(documents({ days: 0 })))).rejects.toMatchObject({
      cause: { code: 'tdx-evaluation-number' },
    });
  });

  test('compares the second of two simultaneous bundles with the first', async () => {
    const cache = await openCache();
    const newer = bundleOf(documents({ number: 18 }));
    const older = bundleOf(documents({ number: 17 }));
    const [first, second] = await Promise.allSettled([cache.accept(newer), cache.accept(older)]);
    expect([first.status, second.status]).toEqual(['fulfilled', 'rejected']);
    expect(cache.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
  });

  test('starts empty and logs an error if the saved file is damaged', async () => {
    await (await openCache()).accept(bundleOf(documents()));
    await files.writeAtomic(PATH, '{"version":1}');
    expect((await openCache()).current).toEqual({});
    expect(log.records.map(({ level }) => level)).toContain('error');
  });
});

describe('CollateralCache.acceptProvisioned()', () => {
  const warnings = (): number => log.records.filter(({ level }) => level === 'warn').length;

  test('accepts a file that appears later; a missing file is no problem', async () => {
    const cache = await openCache();
    await cache.acceptProvisioned();
    expect([cache.current, warnings()]).toEqual([{}, 0]);
    await files.writeAtomic(BESIDE, bundleOf(documents()));
    await cache.acceptProvisioned();
    expect(cache.current.tdx).toMatchObject({ seenEvaluationNumber: 17 });
  });

  test('refuses a file that is older than the cluster’s collateral, and logs that once', async () => {
    const cache = await openCache();
    await cache.accept(bundleOf(documents({ number: 18 })));
    await files.writeAtomic(BESIDE, bundleOf(documents()));
    for (let polls = 0; polls < 3; polls++) await cache.acceptProvisioned();
    expect(cache.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
    expect(warnings()).toBe(1);
  });

  test('does not read a file above the size limit', async () => {
    await files.writeAtomic(BESIDE, new Uint8Array(MAX_UPLOAD_BYTES + 1));
    await (await openCache()).acceptProvisioned();
    expect(warnings()).toBe(1);
  });
});

describe('collateralWorker()', () => {
  async function createWorker() {
    const clusterMembership = new EventValue<Membership | undefined>();
    clusterMembership.set(undefined);
    const cache = await openCache();
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
      ...{ curators, cache, clock, random: () => 0.5 },
    });
    return { clusterMembership, cache, asked, cluster, clock, worker };
  }
  test('does not poll before this node is a member', async () => {
    const { asked, worker } = await createWorker();
    await using _tree = superviseForTest(worker);
    await settle();
    expect(asked).toEqual([]);
  });

  test('accepts the collateral of the cluster at once, and later updates within minutes', async () => {
    const { clusterMembership, cache, asked, cluster, clock, worker } = await createWorker();
    cluster.bundle = bundleOf(documents());
    await using _tree = superviseForTest(worker);
    clusterMembership.set(membership);
    await settle();
    expect(cache.current.tdx).toMatchObject({ seenEvaluationNumber: 17 });
    await clock.advance(10 * 60_000);
    cluster.bundle = bundleOf(documents({ number: 18 }));
    await clock.advance(10 * 60_000);
    await settle();
    expect(cache.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
    expect(asked).toHaveLength(3);
    expect(asked[1]).not.toBe('');
  });

  test('keeps the current collateral if the cluster sends an invalid bundle, logs that once and continues polling', async () => {
    const { clusterMembership, cache, asked, cluster, clock, worker } = await createWorker();
    cluster.bundle = bundleOf(documents());
    await using tree = superviseForTest(worker);
    const errors = (): number => tree.records.filter(({ level }) => level === 'warn').length;
    clusterMembership.set(membership);
    await settle();
    const before = cache.current;
    cluster.bundle = bundleOf(documents({ maker: forger }));
    for (let polls = 0; polls < 3; polls++) await clock.advance(10 * 60_000);
    await settle();
    expect(cache.current).toBe(before);
    expect(errors()).toBe(1);
    cluster.failure = new Error('nobody serves this');
    await clock.advance(10 * 60_000);
    cluster.failure = undefined;
    cluster.bundle = bundleOf(documents({ number: 18 }));
    await clock.advance(10 * 60_000);
    await settle();
    expect(cache.current.tdx).toMatchObject({ seenEvaluationNumber: 18 });
    expect(asked).toHaveLength(6);
  });
});
