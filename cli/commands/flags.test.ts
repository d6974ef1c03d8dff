import { expect, test } from '@jest/globals';
import { Command } from 'commander';
import { fromNowOption, listOf } from './flags.ts';

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

test('a list has known words only, each once', () => {
  const parse = listOf(['raw', 'qcow2', 'iso']);
  expect(parse('iso,raw,iso')).toEqual(['raw', 'iso']);
  for (const text of ['', 'raw,', 'raw, iso', 'RAW', 'vmdk', 'raw,vmdk'])
    expect(() => parse(text)).toThrow('Must be a list of raw, qcow2, iso, separated by commas.');
});
