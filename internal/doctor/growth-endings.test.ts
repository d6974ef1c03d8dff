import { describe, expect, test } from '@jest/globals';
import type { ClusterFacts, FileSystemFacts, GrowthFacts } from './cluster-facts.ts';
import { diagnose, type Grade } from './diagnose.ts';
import { endingsUntil } from './endings.ts';
import { growthOn } from './growth.ts';
import { growthEndings } from './growth-endings.ts';
import { fakeFacts, NOW_MS } from './fake-facts.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const [MIB, GIB] = [1024 ** 2, 1024 ** 3];
const GROWING: GrowthFacts[] = [
  { kind: 'filesystem', name: '/var/lib/kubelet', measuredMs: 9 * DAY_MS, bytesPerDay: GIB },
];
/** Growth of the databases on every control plane. */
const OF_ETCD: Readonly<Record<string, object>> = {
  state: { measuredMs: 76 * 3_600_000, bytesPerDay: 5 * MIB },
  kubernetes: { bytesPerDay: 0 },
};
const RANKS: readonly Grade[] = ['good', 'unknown', 'warning', 'error'];

describe('endingsUntil() of disks and databases', () => {
  const endings = growthEndings(growingFacts()).endings;

  test('lists the limits of the checks that they pass at their growth, with the figures', () => {
    expect(endings.map(({ subject, endsMs }) => [subject, Math.floor((endsMs - NOW_MS) / DAY_MS)])).toEqual([
      ['kubelet disk of n4: less than 15% free', 45],
      ['kubelet disk of n4: less than 10% free', 50],
      ['state etcd: more than 80% of its quota', 314],
      ['state etcd: full, refuses every write', 396],
    ]);
    expect(endings.map(({ figure }) => figure)).toEqual([
      ...Array<string>(2).fill('40.0 GiB of 100.0 GiB used, 1.0 GiB more each day, measured over 9d'),
      ...Array<string>(2).fill('64.0 MiB of 2.0 GiB used, 5.0 MiB more each day, measured over 3d4h'),
    ]);
  });

  test('names exactly the times at which the doctor finds it when clock, disk and database are advanced', () => {
    expect(endings.map(({ endsMs }) => worseAt(endsMs - 1, endsMs))).toEqual([
      ['doctor-disk-space: kubelet disk of n4 good -> warning'],
      ['doctor-disk-space: kubelet disk of n4 warning -> error'],
      ['doctor-etcd-size: state etcd good -> warning'],
      ['doctor-etcd-full: state etcd good -> error'],
    ]);
    // At no other time does one of these checks become worse.
    const [untilMs, codes] = [NOW_MS + 400 * DAY_MS, /^doctor-(disk-space|disk-inodes|etcd-size|etcd-full):/];
    expect(worseAt(NOW_MS, untilMs).filter((each) => codes.test(each))).toEqual([
      'doctor-etcd-full: state etcd good -> error',
      'doctor-disk-space: kubelet disk of n4 good -> error',
      'doctor-etcd-size: state etcd good -> warning',
    ]);
  });

  test.each([
    {
      name: 'was measured for some hours',
      growth: { measuredMs: 3 * 3_600_000 },
      ...{ error: 'measured for 3h: no forecast before 1d', isTooEarly: true },
    },
    {
      name: 'has too few measurements, because the node was off',
      growth: { measuredMs: 2 * DAY_MS },
      ...{ error: 'too few measurements in 2d', isTooEarly: true },
    },
    {
      name: 'is not reported by the agent',
      growth: undefined,
      ...{ error: 'the agent of n4 does not report it', isTooEarly: false },
    },
  ])('says why there is no forecast: the growth $name', ({ growth, error, isTooEarly }) => {
    const disk = { kind: 'filesystem' as const, name: '/var/lib/kubelet' };
    const of = growth === undefined ? [] : [{ ...disk, ...growth }];
    const { unknown } = endingsUntil(growingFacts(of), NOW_MS);
    expect(unknown).toEqual([
      { subject: 'growth of the kubelet disk of n4', error, ...(isTooEarly && { isTooEarly }) },
    ]);
  });

  test.each([
    { age: 'a new', measuredMs: 0, want: { kind: 'too-few' } },
    { age: 'an old', measuredMs: 2 * DAY_MS, want: { kind: 'missing' } },
  ])('of $age node, what its agent has not measured is $want.kind', ({ measuredMs, want }) => {
    const disk = { kind: 'filesystem' as const, name: '/var/lib/kubelet', measuredMs };
    expect(growthOn(growingFacts([disk]), 'n4', { kind: 'etcd', name: 'state' })).toMatchObject(want);
  });

  test('forecasts nothing where a disk does not grow, or has passed the limit already', () => {
    const grows = (bytesPerDay: number): GrowthFacts[] => [
      { kind: 'filesystem', name: '/var/lib/kubelet', measuredMs: 9 * DAY_MS, bytesPerDay },
    ];
    const disks = (facts: ClusterFacts) =>
      growthEndings(facts).endings.flatMap(({ subject }) => (subject.includes('disk') ? [subject] : []));
    expect(disks(growingFacts(grows(0)))).toEqual([]);
    const nearlyFull = growingFacts(grows(GIB), { capacityBytes: 100 * GIB, availableBytes: 12 * GIB });
    expect(disks(nearlyFull)).toEqual(['kubelet disk of n4: less than 10% free']);
  });
});

test('at each time that endingsUntil() names, a check of the doctor becomes worse', () => {
  const facts = growingFacts();
  const { endings } = endingsUntil(facts, NOW_MS + 400 * DAY_MS);
  const unmarked = endings.filter(({ endsMs }) => worseAt(endsMs - 1, endsMs).length === 0);
  // The support of Kubernetes stays a warning after its end, because the cluster works on.
  expect(unmarked.map(({ subject }) => subject)).toEqual(['support of Kubernetes 1.37']);
  expect(endings.length).toBeGreaterThan(10);
});

type Disk = Pick<FileSystemFacts, 'capacityBytes' | 'availableBytes'>;

/** Facts in which one disk grows by 1 GiB a day, and one database by 5 MiB a day. */
function growingFacts(
  diskGrowth: GrowthFacts[] | undefined = GROWING,
  disk: Disk = { capacityBytes: 100 * GIB, availableBytes: 60 * GIB },
): ClusterFacts {
  const facts = fakeFacts({ collateral: { ok: true, value: [{ what: 'CRL', expiresMs: NOW_MS + DAY_MS }] } });
  for (const { node, answer } of facts.metrics)
    if (answer.ok)
      answer.value.growth =
        node === 'n4' ? diskGrowth : answer.value.growth?.map((each) => ({ ...each, ...OF_ETCD[each.name] }));
  for (const { node, answer } of facts.kubelets)
    if (answer.ok && node === 'n4')
      answer.value.fileSystems = answer.value.fileSystems.map((each) => ({ ...each, ...disk }));
  return facts;
}

/** The same facts later: the clock, the disk and the database have gone on as they did. */
function advanced(ms: number): ClusterFacts {
  const [facts, days] = [growingFacts(), (ms - NOW_MS) / DAY_MS];
  if (!facts.records.ok) throw new Error('no records');
  const { stateEtcd } = facts.records.value;
  stateEtcd.dbSizeBytes += days * 5 * MIB;
  stateEtcd.isFull = stateEtcd.dbSizeBytes > stateEtcd.quotaBytes;
  for (const { node, answer } of facts.kubelets)
    for (const each of answer.ok && node === 'n4' ? answer.value.fileSystems : [])
      each.availableBytes -= days * GIB;
  return { ...facts, takenMs: ms };
}

function gradesAt(ms: number): ReadonlyMap<string, Grade> {
  return new Map(diagnose(advanced(ms)).map(({ code, subject, grade }) => [`${code}: ${subject}`, grade]));
}

/** The findings that are worse at the second time, such as "doctor-disk-space: kubelet disk of n4 warning -> error". */
function worseAt(beforeMs: number, ms: number): readonly string[] {
  const before = gradesAt(beforeMs);
  return [...gradesAt(ms)].flatMap(([of, grade]) => {
    const was = before.get(of) ?? 'good';
    return RANKS.indexOf(grade) > RANKS.indexOf(was) ? [`${of} ${was} -> ${grade}`] : [];
  });
}
