import { describe, expect, test } from '@jest/globals';
import { createMemoryLogger, FakeCommands } from '../../internal/testing/index.ts';
import { obeyPowerOrder } from './power.ts';

const signal = new AbortController().signal;
const machine = { bootId: () => Promise.resolve('boot-1') };

function start() {
  const commands = new FakeCommands();
  return { commands, ports: { commands, machine, log: createMemoryLogger().log } };
}

describe('obeyPowerOrder()', () => {
  test.each([
    { action: 'reboot', verb: 'reboot' },
    { action: 'off', verb: 'poweroff' },
  ] as const)('runs systemctl $verb for the order "$action"', async ({ action, verb }) => {
    const { commands, ports } = start();
    await obeyPowerOrder(ports, { action, bootId: 'boot-1' }, signal);
    expect(commands.runs).toEqual([['systemctl', '--no-block', verb]]);
  });

  test('refuses an order for another boot, so that a repeated order restarts nothing', async () => {
    const { commands, ports } = start();
    const order = { action: 'reboot', bootId: 'boot-0' } as const;
    await expect(obeyPowerOrder(ports, order, signal)).rejects.toMatchObject({
      code: 'nodestream-other-boot',
    });
    expect(commands.runs).toEqual([]);
  });
});
