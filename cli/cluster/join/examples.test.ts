import { Command } from 'commander';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { parseProvisioning } from '../../../internal/config/index.ts';
import { register } from '../../commands/node/join.ts';

const EXAMPLES = join(import.meta.dirname, '../../../docs/examples');

/** Flags of a `cluster join` command line, without the global flags. */
async function flagsOf(argv: readonly string[]): Promise<Record<string, unknown>> {
  const program = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  const seen: Record<string, unknown>[] = [];
  register(program.command('join'), () => (flags) => {
    seen.push(flags as Record<string, unknown>);
    return Promise.resolve();
  });
  expect(argv.slice(0, 2)).toEqual(['cluster', 'join']);
  const own = argv
    .slice(2)
    .join('\0')
    .replace(/\0?--output(=|\0)json/, '')
    .split('\0');
  await program.parseAsync(['join', ...own], { from: 'user' });
  return seen[0] ?? {};
}

async function example(name: string): Promise<unknown> {
  return parse(await readFile(join(EXAMPLES, name), 'utf8'));
}

describe('docs/examples', () => {
  test('the cloud-init example writes a valid provisioning file and a valid command line', async () => {
    const file = (await example('cloud-init.yaml')) as {
      write_files: { path: string; content: string; permissions: string }[];
      runcmd: string[][];
    };
    const [provisioning] = file.write_files;
    expect(provisioning).toMatchObject({ path: '/etc/cluster/provisioning.json', permissions: '0600' });
    expect(parseProvisioning(provisioning?.content ?? '').joinEndpoints).toEqual([
      '10.0.0.10',
      '10.0.0.11:9090',
    ]);
    const [shell, stops, script = ''] = file.runcmd.at(-1) ?? [];
    const [checked, started, joined = ''] = script.split('\n');
    expect([shell, stops, checked, started]).toEqual([
      'sh',
      '-ec',
      'cluster preflight --fix --output json',
      'systemctl enable --now bootstrapper.service',
    ]);
    const flags = await flagsOf(joined.replace('exec ', '').split(' '));
    expect(flags).toMatchObject({ wait: true });
    expect(flags['timeout']).toBe(30 * 60_000);
  });

  test('the Ansible example writes a valid provisioning file and a valid command line with the endpoints', async () => {
    const [play] = (await example('ansible.yml')) as [
      { vars: { owner_key: string; endpoints: string[] }; tasks: Record<string, Record<string, unknown>>[] },
    ];
    const { owner_key, endpoints } = play.vars;
    const fill = (text: string): string =>
      text
        .replaceAll('{{ owner_key }}', owner_key)
        .replace(/\{\{ endpoints\[(\d)\] \}\}/g, (_, index: string) => endpoints[Number(index)] ?? '');
    const taskOf = (name: string) => play.tasks.find(({ name: each }) => (each as unknown) === name);
    const content = String(taskOf('Provision the machine')?.['ansible.builtin.copy']?.['content']);
    expect(parseProvisioning(fill(content)).ownerKeys).toEqual([owner_key]);
    const check = taskOf('Check the machine')?.['ansible.builtin.command']?.['argv'];
    expect(play.tasks.indexOf(taskOf('Check the machine') ?? {})).toBeLessThan(play.tasks.length - 2);
    expect(check).toEqual(['cluster', 'preflight', '--fix', '--output=json']);
    // The play retries only when no endpoint responds; any other failure stops it.
    expect(play.tasks.at(-1)?.['until']).toBe('join.rc != 6');
    const argv = play.tasks.at(-1)?.['ansible.builtin.command']?.['argv'] as string[];
    const flags = await flagsOf(argv.map(fill));
    expect(flags).toMatchObject({ wait: true, endpoint: endpoints, timeout: 10 * 60_000 });
  });

  test.each(['', '10', '0m', '10w', '1.5h', '-1m', '9999999s'])(
    '--timeout refuses the duration %j',
    async (text) => {
      await expect(flagsOf(['cluster', 'join', `--timeout=${text}`])).rejects.toThrow('Must be a duration');
    },
  );
});
