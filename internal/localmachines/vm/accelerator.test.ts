import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ExecaRunner } from '../../exec/index.ts';
import { DiskFiles } from '../../file/index.ts';
import { FakeClock } from '../../testing/index.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { findAccelerator } from './accelerator.ts';

const signal = new AbortController().signal;
let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cluster-accelerator-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** A host on which QEMU is this script, in which $console is the file with the console of the machine. */
function hostOf({ device, qemu }: { readonly device: boolean; readonly qemu: string }): HostPorts {
  const program = join(directory, 'qemu-system-x86_64');
  const script = `#!/bin/sh\nfor each do case $each in file:*) console=\${each#file:} ;; esac; done\n${qemu}\n`;
  writeFileSync(program, script);
  chmodSync(program, 0o755);
  const disk = new DiskFiles();
  const stat: HostPorts['files']['stat'] = async () =>
    device ? { kind: 'other', sizeBytes: 0, mode: 0, modifiedMs: 0 } : undefined;
  const files = Object.assign(Object.create(disk) as DiskFiles, { stat });
  const commands = new ExecaRunner({ path: `${directory}:/usr/bin:/bin` });
  return { files, commands, clock: new FakeClock(), processes: {} as HostPorts['processes'] };
}

describe('findAccelerator()', () => {
  test('uses KVM if the firmware prints something under it, and ends that machine', async () => {
    const qemu = `echo $$ > ${directory}/pid; echo 'BdsDxe: loading Boot0001' > "$console"; exec sleep 1000`;
    expect(await findAccelerator(hostOf({ device: true, qemu }), signal)).toBe('kvm');
    const pid = Number(
      await new DiskFiles()
        .read(join(directory, 'pid'), 100)
        .then((bytes) => Buffer.from(bytes ?? []).toString()),
    );
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });

  test('does not use KVM if the device exists, and a machine does not start with it', async () => {
    const qemu = 'echo "ioctl(KVM_CREATE_VM) failed: 16 Device or resource busy" >&2; exit 1';
    expect(await findAccelerator(hostOf({ device: true, qemu }), signal)).toBe('tcg');
  });

  test('starts nothing if there is no device', async () => {
    const qemu = 'echo "BdsDxe: loading" > "$console"; exec sleep 1000';
    expect(await findAccelerator(hostOf({ device: false, qemu }), signal)).toBe('tcg');
  });
});
