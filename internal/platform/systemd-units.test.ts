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

/** Killed before the command that matches; what was written stays. */
function killedBefore(verb: string): CommandRunner {
  const commands = new FakeCommands();
  return {
    run: (command) =>
      command.argv.includes(verb) ? Promise.reject(new Error('killed')) : commands.run(command),
  };
}

describe('SystemdUnits', () => {
  test('install() tells what is new, and nothing once it runs', async () => {
    const { units } = await create();
    expect(await units.install(UNIT, 'one', signal)).toBe(true);
    await units.start(UNIT, signal);
    expect(await units.install(UNIT, 'one', signal)).toBe(false);
    expect(await units.install(UNIT, 'two', signal)).toBe(true);
    await units.restart(UNIT, signal);
    expect(await units.install(UNIT, 'two', signal)).toBe(false);
  });

  test.each(['daemon-reload', 'restart'])(
    'killed before its %s, what is written is still to come into force in the next life',
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

  test('outdate() says that it has yet to be started or restarted, also to the next life', async () => {
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
    { name: 'nothing of one that does not exist', load: 'not-found', active: 'inactive', asked: [] },
    { name: 'only the boot of one that is off', load: 'loaded', active: 'inactive', asked: ['disable'] },
    { name: 'one that runs', load: 'loaded', active: 'active', asked: ['disable', 'stop'] },
    {
      name: 'one that runs without its file',
      load: 'not-found',
      active: 'active',
      asked: ['disable', 'stop'],
    },
  ])('stop() stops $name', async ({ load, active, asked }) => {
    const shown = `LoadState=${load}\nActiveState=${active}\n`;
    const commands = new FakeCommands((argv) => (argv.includes('show') ? shown : undefined));
    await new SystemdUnits({ files: new MemoryFiles(), commands }).stop(UNIT, signal);
    expect(commands.runs.map(([, verb]) => verb)).toEqual(['show', ...asked]);
  });

  test('a drop-in is active when systemd has read it', async () => {
    const { units } = await create();
    expect(await units.install('x.slice.d/cluster.conf', 'one', signal)).toBe(true);
    expect(await units.install('x.slice.d/cluster.conf', 'one', signal)).toBe(false);
  });

  test.each([
    {
      name: 'nothing more for one that it has read',
      shown: 'LoadState=loaded\nNeedDaemonReload=no\n',
      reloads: 0,
    },
    {
      name: 'a reload for one that it knows otherwise',
      shown: 'LoadState=loaded\nNeedDaemonReload=yes\n',
      reloads: 1,
    },
    {
      name: 'a reload for one that it did not find before',
      shown: 'LoadState=not-found\nNeedDaemonReload=no\n',
      reloads: 1,
    },
  ])('install() asks of systemd $name', async ({ shown, reloads }) => {
    const files = new MemoryFiles();
    await files.makeDirectory('/etc/systemd/system');
    const commands = new FakeCommands((argv) => (argv.includes('show') ? shown : undefined));
    await new SystemdUnits({ files, commands }).install(UNIT, 'one', signal);
    expect(commands.runs.filter((argv) => argv.includes('daemon-reload'))).toHaveLength(reloads);
  });

  test('install() of a drop-in reloads whatever systemd says of a unit', async () => {
    const files = new MemoryFiles();
    await files.makeDirectory('/etc/systemd/system');
    const commands = new FakeCommands(() => 'LoadState=loaded\nNeedDaemonReload=no\n');
    await new SystemdUnits({ files, commands }).install('x.slice.d/cluster.conf', 'one', signal);
    expect(commands.runs).toEqual([['systemctl', 'daemon-reload']]);
  });

  test.each([
    { name: 'nothing for one that a package brought', shipped: 'one', reloads: 0 },
    { name: 'its own for another one of a package', shipped: 'of an older package', reloads: 1 },
  ])('install() of a drop-in does $name', async ({ shipped, reloads }) => {
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
