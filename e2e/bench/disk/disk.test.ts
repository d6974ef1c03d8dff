import { describe, expect, test } from '@jest/globals';
import { formatArguments } from '../../../internal/luks/index.ts';
import { FILE_SYSTEM_OPTIONS } from '../../../internal/statedisk/index.ts';
import { hasVirtualization } from './accelerator.ts';
import { CIPHER_COMMAND, HOST_CIPHER, hostCipherSpeed, parseCipherSpeed } from './cipher-speed.ts';
import { costsOf, DISKS, orderOf, type DiskRun } from './disk-costs.ts';
import { etcdCommand, parseEtcd, quantileOf } from './etcd-fsync.ts';
import { fioCommand, parseFio } from './fio.ts';

const percentiles = { '50.000000': 100_000, '99.000000': 400_000 };
const idle = { bw_bytes: 0, iops: 0, clat_ns: { N: 0 } };
const busy = { bw_bytes: 8_192_000, iops: 2_000, clat_ns: { N: 10_000, percentile: percentiles } };
const job = { error: 0, read: busy, write: idle, sync: { lat_ns: { N: 0 } } };
const fsynced = {
  ...{ ...job, read: idle, write: busy },
  sync: { lat_ns: { N: 10_000, percentile: { '99.000000': 3_000_000 } } },
};
const report = (...jobs: readonly object[]): string => JSON.stringify({ 'fio version': 'fio-3.33', jobs });

describe('parseFio()', () => {
  test('parseFio() reads the reads of a read', () => {
    const run = parseFio(report(job), 'read-4k');
    expect(run).toEqual({ msPerOperation: 0.5, megabytesPerSecond: 8.192, p99Ms: 0.4 });
  });

  test('parseFio() takes the p99 of the fsyncs if each write has one', () => {
    expect(parseFio(report(fsynced), 'write-4k')).toMatchObject({ msPerOperation: 0.5, p99Ms: 3 });
  });

  test.each([
    { name: 'an empty text', given: '' },
    { name: 'a report with a note before it', given: `fio: note\n${report(job)}` },
    { name: 'half a report', given: report(job).slice(0, 80) },
    { name: 'a report without jobs', given: report() },
    { name: 'a report of two jobs', given: report(job, job) },
    { name: 'a job with an error', given: report({ ...job, error: 5 }) },
    { name: 'a job that read nothing', given: report({ ...job, read: idle }) },
    {
      name: 'a job without percentiles',
      given: report({ ...job, read: { ...busy, clat_ns: { N: 1, percentile: {} } } }),
    },
    { name: 'a speed of zero', given: report({ ...job, read: { ...busy, iops: 0 } }) },
    { name: 'a negative speed', given: report({ ...job, read: { ...busy, iops: -1 } }) },
  ])('parseFio() refuses $name', ({ given }) => {
    expect(() => parseFio(given, 'read-4k')).toThrow('fio');
  });
});

test('fio bypasses the page cache, and makes each small write durable', () => {
  expect(fioCommand('write-4k', '/dev/mapper/a', 5)).toContain('--filename=/dev/mapper/a');
  expect(fioCommand('write-4k', '/dev/mapper/a', 5)).toMatch(/--direct=1 .*--fsync=1/);
});

/** Cumulative counts up to 1, 2 and 4 ms, and of all. */
function metrics(counts: readonly [number, number, number, number], sum: number): string {
  const name = 'etcd_disk_wal_fsync_duration_seconds';
  const bounds = ['0.001', '0.002', '0.004', '+Inf'];
  return [
    ...counts.map((count, index) => `${name}_bucket{le="${bounds[index]}"} ${count}`),
    `${name}_sum ${sum}`,
    `${name}_count ${counts[3]}`,
  ].join('\n');
}
const before = metrics([0, 0, 10, 10], 0.03);
const after = metrics([50, 100, 110, 110], 0.15);
const etcdOutput = (...parts: readonly string[]): string => parts.join('\n::next\n');

describe('parseEtcd()', () => {
  test('parseEtcd() counts the fsyncs between both readings only', () => {
    const run = parseEtcd(etcdOutput(before, after, '98'));
    expect(run).toMatchObject({ fsyncs: 100, writes: 98 });
    expect(run.meanMs).toBeCloseTo(1.2);
    expect(run.p99Ms).toBeCloseTo(1.98);
  });

  test.each([
    { name: 'an empty output', given: '' },
    { name: 'an etcd that did not start', given: etcdOutput('', '', '0') },
    { name: 'an output that ends before the last reading', given: etcdOutput(before, after) },
    { name: 'no fsync between the readings', given: etcdOutput(after, after, '98') },
    { name: 'no answered write', given: etcdOutput(before, after, '0') },
    { name: 'another text than a number of answers', given: etcdOutput(before, after, 'grep: failed') },
    {
      name: 'a histogram without its last bucket',
      given: etcdOutput(before, after.replace(/^.*\+Inf.*$/m, ''), '98'),
    },
    { name: 'a histogram without a sum', given: etcdOutput(before, after.replace(/^.*_sum.*$/m, ''), '98') },
    {
      name: 'buckets that contradict the count',
      given: etcdOutput(before, after.replace('_count 110', '_count 111'), '98'),
    },
  ])('parseEtcd() refuses $name', ({ given }) => {
    expect(() => parseEtcd(given)).toThrow('etcd');
  });
});

describe('quantileOf()', () => {
  const buckets = [
    { boundSeconds: 1, count: 50 },
    { boundSeconds: 2, count: 90 },
    { boundSeconds: Number.POSITIVE_INFINITY, count: 100 },
  ];

  test.each([
    { quantile: 0.5, want: 1 },
    { quantile: 0.7, want: 1.5 },
    { quantile: 0.9, want: 2 },
    { quantile: 0.99, want: 2 },
  ])('quantileOf() is $want for $quantile', ({ quantile, want }) => {
    expect(quantileOf(buckets, quantile)).toBeCloseTo(want);
  });
});

test('the requests to etcd have the length of their body, with the line break after it', () => {
  const [, length, body = ''] =
    /Content-Length: (\d+)\\r\\n\\r\\n(\{[^}]*\})/.exec(etcdCommand('/dev/vda', 10)) ?? [];
  expect(Number(length)).toBe(`${body}\n`.length);
  expect(JSON.parse(body)).toMatchObject({ key: 'a2V5' });
});

test('etcd writes to a file system with the options of a state disk', () => {
  const command = etcdCommand('/dev/vda', 10);
  expect(command).toContain(`mkfs.ext4 ${FILE_SYSTEM_OPTIONS.join(' ')} -b 4096 /dev/vda `);
  expect(command).toContain('mount -t ext4 -o noatime /dev/vda ');
});

describe('costs', () => {
  /** The plain disk's figures in a round in which the machine is slowed down, each multiplied by its own factor. */
  const run = (slow: number, factors: readonly number[] = []): DiskRun => {
    const by = (index: number): number => slow * (factors[index] ?? 1);
    return {
      'read-4k': { msPerOperation: 0.3 * by(0), megabytesPerSecond: 13, p99Ms: 3 * by(1) },
      'write-4k': { msPerOperation: 1.5 * by(2), megabytesPerSecond: 3, p99Ms: 5 * by(3) },
      'read-1m': { msPerOperation: 1, megabytesPerSecond: 1600 / by(4), p99Ms: 11 * by(5) },
      'write-1m': { msPerOperation: 1, megabytesPerSecond: 2400 / by(6), p99Ms: 7 * by(7) },
      etcd: { fsyncs: 100, writes: 100, meanMs: 9 * by(8), p99Ms: 80 * by(9) },
    };
  };
  /** Each figure's factor on the disk without tags, and its median on the plain disk. */
  const wanted: Readonly<Record<string, { readonly factor: number; readonly plain: string }>> = {
    '4 KiB random read, time, ÷ plain': { factor: 2, plain: '0.600 ms' },
    '4 KiB random read, p99, ÷ plain': { factor: 3, plain: '6.0 ms' },
    '4 KiB random write with fsync, time, ÷ plain': { factor: 4, plain: '3.0 ms' },
    '4 KiB random write with fsync, p99 of the fsync, ÷ plain': { factor: 5, plain: '10.0 ms' },
    'throughput of 1 MiB reads, plain ÷ encrypted': { factor: 6, plain: '800 MB/s' },
    '1 MiB reads, p99, ÷ plain': { factor: 7, plain: '22.0 ms' },
    'throughput of 1 MiB writes, plain ÷ encrypted': { factor: 8, plain: '1200 MB/s' },
    '1 MiB writes, p99, ÷ plain': { factor: 9, plain: '14.0 ms' },
    "fsync of etcd's log, mean, ÷ plain": { factor: 10, plain: '18.0 ms' },
    "fsync of etcd's log, p99, ÷ plain": { factor: 11, plain: '160 ms' },
  };
  const encrypted = Object.values(wanted).map(({ factor }) => factor);
  const costs = costsOf(
    [1, 2, 4].map((slow) => ({
      plain: run(slow),
      encrypted: run(slow, encrypted),
      authenticated: run(
        slow,
        encrypted.map((factor) => 10 * factor),
      ),
    })),
  );

  test.each([
    { disk: 'encryption without tags', times: 1 },
    { disk: 'encryption with tags (the default)', times: 10 },
  ])(
    'costsOf() divides the times of $disk, and throughputs the other way round, by those of the plain disk in the same round',
    ({ disk, times }) => {
      const ours = costs.filter(({ name }) => name.startsWith(`${disk}: `));
      expect(ours.map(({ name }) => name.slice(disk.length + 2))).toEqual(Object.keys(wanted));
      for (const { name, value, spread = [], detail, ...rest } of ours) {
        const { factor = 0, plain = '' } = wanted[name.slice(disk.length + 2)] ?? {};
        expect(rest).toEqual({ unit: '×', runs: 3 });
        for (const each of [value, ...spread]) expect(each).toBeCloseTo(factor * times);
        expect(detail).toMatch(new RegExp(` ${plain.split(' ')[1]}, plain ${plain}$`));
      }
    },
  );

  test('costsOf() tells the medians from which a reader can judge a ratio', () => {
    const details = new Map(costs.map(({ name, detail }) => [name, detail]));
    expect(details.get('encryption without tags: 4 KiB random read, time, ÷ plain')).toBe(
      '1.2 ms, plain 0.600 ms',
    );
    expect(details.get('encryption without tags: throughput of 1 MiB reads, plain ÷ encrypted')).toBe(
      '133 MB/s, plain 800 MB/s',
    );
  });

  test('each disk is the first one, the second one and the last one in three rounds', () => {
    const orders = [0, 1, 2].map(orderOf);
    for (const position of [0, 1, 2])
      expect(new Set(orders.map((order) => order[position])).size).toBe(DISKS.length);
    expect(orderOf(3)).toEqual(DISKS);
  });
});

test('the measured cipher is that of a state disk, in the guest and on the machine itself', () => {
  const cipher = CIPHER_COMMAND.slice('cryptsetup benchmark '.length);
  const disk = { uuid: 'd0d0', isAuthenticated: true, header: '/run/header', device: '/dev/vda' };
  expect(formatArguments(disk).join(' ')).toContain(` ${cipher} `);
  expect(HOST_CIPHER).toBe('aes-256-xts');
  expect(hostCipherSpeed()).toBeGreaterThan(0);
});

describe('parseCipherSpeed()', () => {
  const output = `# Tests are approximate using memory only (no storage IO).
# Algorithm |       Key |      Encryption |      Decryption
    aes-xts        512b      3264.2 MiB/s      3334.4 MiB/s
`;

  test('parseCipherSpeed() reads the speed of the encryption', () => {
    expect(parseCipherSpeed(output)).toBeCloseTo(3264.2 * 2 ** 20);
  });

  test.each([
    { name: 'an empty output', given: '' },
    { name: 'a cipher that the kernel lacks', given: output.replaceAll(/3\d+\.\d MiB\/s/g, '       N/A') },
    { name: 'a speed of zero', given: output.replace('3264.2', '0.0') },
  ])('parseCipherSpeed() refuses $name', ({ given }) => {
    expect(() => parseCipherSpeed(given)).toThrow('no cipher');
  });
});

describe('hasVirtualization()', () => {
  test.each([
    { flags: 'fpu vmx aes', want: true },
    { flags: 'fpu aes svm', want: true },
    { flags: 'fpu aes hypervisor', want: false },
    { flags: 'fpu svm_lock', want: false },
  ])('hasVirtualization() is $want for a processor with $flags', ({ flags, want }) => {
    expect(hasVirtualization(`processor\t: 0\nflags\t\t: ${flags}\nbugs\t\t: svm vmx\n`)).toBe(want);
  });
});
