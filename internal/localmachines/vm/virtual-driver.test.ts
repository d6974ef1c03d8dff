import { describe, expect, test } from '@jest/globals';
import { FakeClock, MemoryFiles } from '../../testing/index.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { clusterPaths, nodePaths } from '../node/node-paths.ts';
import { VirtualDriver } from './virtual-driver.ts';

const signal = new AbortController().signal;
const cluster = clusterPaths('/d/mini/a');
const paths = nodePaths(cluster, 'n1');
const FIRST = `sha256:${'a'.repeat(64)}`;
const SECOND = `sha256:${'b'.repeat(64)}`;

/** A machine whose console shows this text. */
async function machineOf(console: string | undefined) {
  const files = new MemoryFiles();
  for (const directory of [cluster.directory, paths.directory, paths.vm])
    await files.makeDirectory(directory);
  const show = (text: string): Promise<void> => files.writeAtomic(paths.console, text);
  if (console !== undefined) await show(console);
  const runs: (readonly string[])[] = [];
  const commands: HostPorts['commands'] = {
    run: async ({ argv }) => {
      runs.push(argv);
      if (argv[0] === 'cp') await files.writeAtomic(argv[2] ?? '', 'variables');
      return { exitCode: 0, stdout: '', stderr: '' };
    },
  };
  const host: HostPorts = {
    files,
    commands,
    clock: new FakeClock(),
    processes: {} as HostPorts['processes'],
  };
  const driver = new VirtualDriver({
    ...{ host, cluster, paths, network: { number: 7 }, layout: { hierarchies: [], managed: false } },
    record: {
      ...{ version: 1, name: 'n1', address: '198.18.7.11', layers: [], binds: [], procFiles: {} },
      vm: { memoryMib: 4096 },
    },
    accelerator: async () => 'tcg',
  });
  return { driver, files, show, runs };
}

describe('VirtualDriver', () => {
  test('has booted once the firmware has started the disk', async () => {
    const { driver, show } = await machineOf(undefined);
    expect(await driver.hasBooted()).toBe(false);
    await show('BdsDxe: loading Boot0001 "UEFI Misc Device"\r\n');
    expect(await driver.hasBooted()).toBe(false);
    await show('BdsDxe: starting Boot0001 "UEFI Misc Device"\r\n');
    expect(await driver.hasBooted()).toBe(true);
  });

  test('reads the fingerprint of the agent from the console, the last one if there are several', async () => {
    const { driver, show } = await machineOf('BdsDxe: starting Boot0001\r\n');
    expect(await driver.agentFingerprint()).toBeUndefined();
    await show(`fingerprint ${FIRST}\r\nfingerprint ${SECOND}\r\n`);
    expect(await driver.agentFingerprint()).toBe(SECOND);
  });

  test('remembers the fingerprint for the time after the next start, when a node does not show it', async () => {
    const { driver, show } = await machineOf(`fingerprint ${FIRST}\r\n`);
    await driver.prepare(signal);
    await show('');
    expect(await driver.agentFingerprint()).toBe(FIRST);
  });

  test('keeps the firmware variables of the machine', async () => {
    const { driver, files, runs } = await machineOf(undefined);
    await driver.prepare(signal);
    expect(runs).toHaveLength(1);
    await files.writeAtomic(`${paths.vm}/variables.fd`, 'changed');
    await driver.prepare(signal);
    expect(runs).toHaveLength(1);
    expect(Buffer.from((await files.read(`${paths.vm}/variables.fd`, 100)) ?? []).toString()).toBe('changed');
  });

  test('refuses to run a program in the machine, which has no shell, and names its console', async () => {
    const { driver } = await machineOf(undefined);
    await expect(driver.enter([1], ['kubectl'])).rejects.toMatchObject({
      code: 'localmachines-no-programs',
      message: expect.stringContaining(paths.console),
    });
  });
});
