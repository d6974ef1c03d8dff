import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { collectAnswers } from './answers.ts';
import { collectManPages, escape, splitHelpText, type ManPage } from './man.ts';
import { cliPackage } from './packages.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cluster-man-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function mandoc(pages: readonly ManPage[], ...flags: readonly string[]): string {
  const files = pages.map(({ name, text }) => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  });
  return execFileSync('mandoc', [...flags, ...files], { encoding: 'utf8' });
}

/** The text of a page as a reader sees it, without bold and underlined characters. */
function rendered(page: ManPage | undefined): string {
  if (page === undefined) throw new Error('there is no such page');
  return mandoc([page], '-T', 'ascii', '-O', 'width=200').replace(/.\x08/g, '');
}

describe('collectManPages()', () => {
  test('makes one page for each command with a help text', async () => {
    const helped = (await collectAnswers())
      .filter(({ args }) => args.at(-1) === '--help')
      .map(({ args }) => `${['cluster', ...args.slice(0, -1)].join('-')}.1`);
    const names = (await collectManPages('1.0.0', 0)).map(({ name }) => name);
    expect(names.length).toBeGreaterThan(80);
    expect([...names].sort()).toEqual(helped.sort());
  });

  test('makes pages about which mandoc has no warning', async () => {
    expect(mandoc(await collectManPages('1.0.0', 0), '-T', 'lint', '-W', 'warning')).toBe('');
  });

  test('shows arguments, flags with their defaults, the text after the help, and examples', async () => {
    const page = (await collectManPages('1.0.0', 0)).find(({ name }) => name === 'cluster-node-approve.1');
    const text = rendered(page);
    expect(text).toContain('cluster-node-approve - admit a machine that asked to join');
    expect(text).toContain('cluster node approve [options] <machine>');
    expect(text).toMatch(
      /--roles <roles>\s+control-plane, worker, or both \(comma-separated\) \(default: worker\)/,
    );
    expect(text).toContain(
      'Compare the fingerprint with the fingerprint on the console of the machine first.',
    );
    expect(text).toContain('cluster node approve sha256:4f1c09ab --name worker-1\n');
    expect(text).toContain('cluster-node(1)');
    expect(text).toMatch(/cluster 1\.0\.0 +1970-01-01/);
  });

  test('lists the global options, commands and exit codes on the page of the program', async () => {
    const text = rendered((await collectManPages('1.0.0', 0)).find(({ name }) => name === 'cluster.1'));
    expect(text).toMatch(/--output <format>\s.*one of: human, wide, json, yaml, name; default: human/);
    expect(text).toMatch(/kubeconfig\s+print, renew or merge the kubeconfig/);
    expect(text).toMatch(/20\s+a disk is full/);
    expect(text).toContain('CLUSTER_WORKSPACE');
  });
});

test.each(['.TH starts a line', "'a quote'", 'a\\nb', '`x` -y ~z ^', 'n3 – “ready” é 𝛼'])(
  'escape() lets mandoc show %j as it is',
  (text) => {
    const page = {
      name: 'x.1',
      text: `.TH X 1 2026-01-01\n.SH NAME\nx \\- y\n.SH DESCRIPTION\n${escape(text)}\n`,
    };
    expect(mandoc([page], '-T', 'utf8').replace(/.\x08/gu, '')).toContain(text);
  },
);

test('splitHelpText() keeps the lines of examples and of indented text', () => {
  expect(splitHelpText('\nOne\ntwo.\n\nRun:\n  a\n  b\n\nExamples:\n  First:\n    c -d\n')).toEqual({
    prose: [
      ['One', 'two.'],
      ['Run:', '.nf', '  a', '  b', '.fi'],
    ],
    examples: ['.nf', 'First:', '  c \\-d', '.fi'],
  });
});

test('cliPackage() has the compressed pages in every format', async () => {
  const manPages = await collectManPages('1.0.0', 0);
  const formats = cliPackage({
    root: join(import.meta.dirname, '../..'),
    dist: '/dist',
    version: '1.0.0',
    architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
    npmPackages: [],
    manPages,
  });
  for (const { entries } of [formats.deb, formats.rpm, formats.tar]) {
    const page = entries.find(({ path }) => path === '/usr/share/man/man1/cluster-node-ls.1.gz');
    const text = page?.kind === 'text' ? gunzipSync(page.text).toString() : '';
    expect(text).toBe(manPages.find(({ name }) => name === 'cluster-node-ls.1')?.text);
    expect(entries.filter(({ path }) => path.startsWith('/usr/share/man/'))).toHaveLength(manPages.length);
  }
});
