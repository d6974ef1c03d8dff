import { expect, test } from '@jest/globals';
import { Command } from 'commander';
import { fromNowOption } from './flags.ts';

function parsed(text: string): unknown {
  const command = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  command.addOption(fromNowOption('--at <duration>', 'a time from now on'));
  return command.parse([`--at=${text}`], { from: 'user' }).opts()['at'];
}

test('a time from now on is a duration, with or without a plus', () => {
  const days400 = 400 * 24 * 3_600_000;
  expect([parsed('400d'), parsed('+400d')]).toEqual([days400, days400]);
  for (const text of ['++400d', '-400d', '+', '400', '+ 400d'])
    expect(() => parsed(text)).toThrow('Must be a duration');
});
