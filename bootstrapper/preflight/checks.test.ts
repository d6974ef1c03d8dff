import { describe, expect, test } from '@jest/globals';
import { judge, type Facts } from './checks.ts';

const fit: Facts = {
  swaps: 'Filename\tType\tSize\tUsed\tPriority\n',
  busyPorts: [],
  addresses: ['198.18.0.11'],
  wantedAddress: undefined,
  nodeName: 'n1',
  nameResolvesTo: ['127.0.1.1', '198.18.0.11'],
  room: [{ folder: '/var/lib/cluster', freeBytes: 10, neededBytes: 10 }],
  unwritable: [],
  ipForward: '1\n',
  fileSystems: 'nodev\tsysfs\nnodev\toverlay\n\text4\n',
  missingPrograms: [],
};

describe('judge()', () => {
  test('finds nothing on a fit machine', () => {
    expect(judge(fit)).toEqual([]);
  });

  const unfit: { name: string; given: Partial<Facts>; want: string; says: string }[] = [
    {
      name: 'swap',
      given: { swaps: `${fit.swaps}/dev/sda2 partition 1 0 -2\n` },
      want: 'preflight-swap',
      says: '/dev/sda2',
    },
    {
      name: 'a busy port',
      given: { busyPorts: [{ port: 6443, why: 'taken' }] },
      want: 'preflight-port',
      says: '6443',
    },
    { name: 'no address', given: { addresses: [] }, want: 'preflight-address', says: 'loopback' },
    {
      name: 'an address that changed',
      given: { wantedAddress: '198.18.0.12', nameResolvesTo: ['198.18.0.12'] },
      want: 'preflight-address',
      says: '198.18.0.12',
    },
    {
      name: 'a name that is another machine’s',
      given: { nameResolvesTo: ['198.18.0.99'] },
      want: 'preflight-hostname',
      says: '198.18.0.99',
    },
    {
      name: 'a full disk',
      given: { room: [...fit.room, { folder: '/var/lib/containerd', freeBytes: 9, neededBytes: 10 }] },
      want: 'preflight-disk',
      says: '/var/lib/containerd',
    },
    {
      name: 'a read-only disk',
      given: { unwritable: [{ path: '/opt/cluster', why: 'EROFS' }] },
      want: 'preflight-read-only',
      says: '/opt/cluster',
    },
    { name: 'no forwarding', given: { ipForward: '0\n' }, want: 'preflight-kernel', says: 'ip_forward' },
    { name: 'no overlay', given: { fileSystems: '\text4\n' }, want: 'preflight-kernel', says: 'overlay' },
    {
      name: 'a missing program',
      given: { missingPrograms: ['conntrack'] },
      want: 'preflight-program',
      says: 'conntrack',
    },
  ];
  test.each(unfit)('names $name', ({ given, want, says }) => {
    const findings = judge({ ...fit, ...given });
    expect(findings).toEqual([{ code: want, what: expect.stringContaining(says) }]);
  });

  test('names the disk before what a broken disk causes', () => {
    const findings = judge({ ...fit, unwritable: [{ path: '/etc', why: 'EROFS' }], missingPrograms: ['ip'] });
    expect(findings.map(({ code }) => code)).toEqual(['preflight-read-only', 'preflight-program']);
  });
});
