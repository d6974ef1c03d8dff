import { describe, expect, test } from '@jest/globals';
import { qemuArgv } from './qemu-command.ts';

const machine = {
  network: { number: 7 },
  name: 'n1',
  address: '198.18.7.11',
  memoryMib: 4096,
  accelerator: 'tcg',
  tpmSocket: '../tpm/run/tpm.sock',
  console: '../console.log',
} as const;

describe('qemuArgv()', () => {
  test('connects the machine to the switch of its cluster only, with the address of its network card', () => {
    const argv = qemuArgv(machine);
    expect(argv.slice(0, 4)).toEqual([
      'nsenter',
      '--net=/run/cluster-mini/clu7/switch',
      '--',
      'qemu-system-x86_64',
    ]);
    expect(argv).toContain('tap,id=net,ifname=p11,script=no,downscript=no');
    expect(argv).toContain('virtio-net-pci,netdev=net,romfile=,mac=02:63:c6:12:07:0b');
    expect(argv.filter((word) => word === '-netdev')).toHaveLength(1);
  });

  test('keeps what the machine writes to its disk, and boots it first', () => {
    const argv = qemuArgv(machine);
    expect(argv).toContain('file=disk.raw,format=raw,if=none,id=disk');
    expect(argv).toContain('virtio-blk-pci,drive=disk,bootindex=1');
  });

  test('gives the machine the TPM with its identity', () => {
    expect(qemuArgv(machine)).toContain('socket,id=tpm,path=../tpm/run/tpm.sock');
  });

  test.each([
    { accelerator: 'kvm', cpu: 'host', accel: 'kvm' },
    { accelerator: 'tcg', cpu: 'max,la57=off', accel: 'tcg,thread=multi' },
  ] as const)('chooses the processor of $accelerator', ({ accelerator, cpu, accel }) => {
    const argv = qemuArgv({ ...machine, accelerator });
    expect(argv[argv.indexOf('-accel') + 1]).toBe(accel);
    expect(argv[argv.indexOf('-cpu') + 1]).toBe(cpu);
  });
});
