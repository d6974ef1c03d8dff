import { describe, expect, test } from '@jest/globals';
import type { CommandRunner } from '../exec/index.ts';
import { FakeCommands, MemoryFiles } from '../testing/index.ts';
import { SystemdUnits } from './systemd-units.ts';

const signal = new AbortController().signal;
const UNIT = 'cluster-signer.service';
const PATH = `/etc/systemd/system/${UNIT}`;

async function create() {
  const files = new MemoryFiles();
  await files.makeDirectory('/etc/systemd/system');
  return { files, units: new SystemdUnits({ files, commands: new FakeCommands() }) };
}

/** A runner that simulates a kill before the matching command. Files that were written stay. */
function killedBefore(verb: string): CommandRunner {
  const commands = new FakeCommands();
  return {
    run: (command) =>
      command.argv.includes(verb) ? Promise.reject(new Error('killed')) : commands.run(command),
  };
}

describe('SystemdUnits', () => {
  test('install() reports a new unit, and reports no change once the unit runs', async () => {
    const { units } = await create();
    expect(await units.install(UNIT, 'one', signal)).toBe(true);
    await units.start(UNIT, signal);
    expect(await units.install(UNIT, 'one', signal)).toBe(false);
    expect(await units.install(UNIT, 'two', signal)).toBe(true);
    await units.restart(UNIT, signal);
    expect(await units.install(UNIT, 'two', signal)).toBe(false);
  });

  test.each(['daemon-reload', 'restart'])(
    'a process killed before its %s leaves a unit that the next process must still start or restart',
    async (verb) => {
      const { files, units } = await create();
      await units.install(UNIT, 'one', signal);
      await units.start(UNIT, signal);
      const dying = new SystemdUnits({ files, commands: killedBefore(verb) });
      const life = async (): Promise<void> => {
        await dying.install(UNIT, 'two', signal);
        await dying.restart(UNIT, signal);
      };
      await expect(life()).rejects.toThrow();
      expect(Buffer.from((await files.read(PATH, 10)) ?? []).toString()).toBe('two');
      expect(await units.install(UNIT, 'two', signal)).toBe(true);
      await units.restart(UNIT, signal);
      expect(await units.install(UNIT, 'two', signal)).toBe(false);
    },
  );

  test('requireRestart() makes install() report a pending restart, also in later processes', async () => {
    const { files, units } = await create();
    await units.install(UNIT, 'one', signal);
    await units.start(UNIT, signal);
    await units.requireRestart(UNIT);
    const next = new SystemdUnits({ files, commands: new FakeCommands() });
    expect(await next.install(UNIT, 'one', signal)).toBe(true);
    await next.restart(UNIT, signal);
    expect(await next.install(UNIT, 'one', signal)).toBe(false);
  });

  test.each([
    { name: 'does nothing for a unit that does not exist', load: 'not-found', active: 'inactive', asked: [] },
    {
      name: 'only disables a unit that does not run',
      load: 'loaded',
      active: 'inactive',
      asked: ['disable'],
    },
    {
      name: 'disables and stops a running unit',
      load: 'loaded',
      active: 'active',
      asked: ['disable', 'stop'],
    },
    {
      name: 'disables and stops a running unit without a unit file',
      load: 'not-found',
      active: 'active',
      asked: ['disable', 'stop'],
    },
  ])('stop() $name', async ({ load, active, asked }) => {
    const shown = `LoadState=${load}\nActiveState=${active}\n`;
    const commands = new FakeCommands((argv) => (argv.includes('show') ? shown : undefined));
    await new SystemdUnits({ files: new MemoryFiles(), commands }).stop(UNIT, signal);
    expect(commands.runs.map(([, verb]) => verb)).toEqual(['show', ...asked]);
  });

  test('kill() kills only the main process: containers run in the group of containerd', async () => {
    const commands = new FakeCommands();
    await new SystemdUnits({ files: new MemoryFiles(), commands }).kill(UNIT, signal);
    expect(commands.runs).toEqual([['systemctl', 'kill', '--kill-who=main', '--signal=KILL', UNIT]]);
  });

  test('install() of a drop-in reports a change when it writes the drop-in, and not again for the same text', async () => {
    const { units } = await create();
    expect(await units.install('x.slice.d/cluster.conf', 'one', signal)).toBe(true);
    expect(await units.install('x.slice.d/cluster.conf', 'one', signal)).toBe(false);
  });

  test.each([
    {
      name: 'no reload for a unit that systemd has read',
      shown: 'LoadState=loaded\nNeedDaemonReload=no\n',
      reloads: 0,
    },
    {
      name: 'a reload for a unit that systemd read with other content',
      shown: 'LoadState=loaded\nNeedDaemonReload=yes\n',
      reloads: 1,
    },
    {
      name: 'a reload for a unit that systemd did not find before',
      shown: 'LoadState=not-found\nNeedDaemonReload=no\n',
      reloads: 1,
    },
  ])('install() requests $name', async ({ shown, reloads }) => {
    const files = new MemoryFiles();
    await files.makeDirectory('/etc/systemd/system');
    const commands = new FakeCommands((argv) => (argv.includes('show') ? shown : undefined));
    await new SystemdUnits({ files, commands }).install(UNIT, 'one', signal);
    expect(commands.runs.filter((argv) => argv.includes('daemon-reload'))).toHaveLength(reloads);
  });

  test('install() of a drop-in requests a reload, whatever systemd reports about the unit', async () => {
    const files = new MemoryFiles();
    await files.makeDirectory('/etc/systemd/system');
    const commands = new FakeCommands(() => 'LoadState=loaded\nNeedDaemonReload=no\n');
    await new SystemdUnits({ files, commands }).install('x.slice.d/cluster.conf', 'one', signal);
    expect(commands.runs).toEqual([['systemctl', 'daemon-reload']]);
  });

  test.each([
    { name: 'nothing for a drop-in that a package installed', shipped: 'one', reloads: 0 },
    {
      name: 'a new file for a drop-in that differs from the packaged one',
      shipped: 'of an older package',
      reloads: 1,
    },
  ])('install() of a drop-in writes $name', async ({ shipped, reloads }) => {
    const files = new MemoryFiles();
    for (const directory of ['/etc/systemd/system', '/lib/systemd/system/x.slice.d'])
      await files.makeDirectory(directory);
    await files.writeAtomic('/lib/systemd/system/x.slice.d/cluster.conf', shipped);
    const commands = new FakeCommands();
    const installed = await new SystemdUnits({ files, commands }).install(
      'x.slice.d/cluster.conf',
      'one',
      signal,
    );
    expect(installed).toBe(reloads === 1);
    expect(commands.runs).toHaveLength(reloads);
  });
});
