import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

const ROOT = resolve(import.meta.dirname, '..');

/**
 * Each forbidden import, and the rule that refuses it. A `cycle` consists of type imports in both files.
 */
const REFUSED: readonly {
  readonly from: string;
  readonly to: string;
  readonly rule: string;
  readonly cycle?: true;
}[] = [
  { from: 'cli/a/x.ts', to: 'bootstrapper/a/index.ts', rule: 'R1-cli-is-an-island' },
  { from: 'bootstrapper/a/x.ts', to: 'joinservice/server/index.ts', rule: 'R1-bootstrapper-is-an-island' },
  { from: 'joinservice/server/x.ts', to: 'cli/a/index.ts', rule: 'R1-joinservice-is-an-island' },
  { from: 'internal/role/x.ts', to: 'cli/a/index.ts', rule: 'R2-internal-never-looks-up' },
  { from: 'internal/role/y.ts', to: 'initproto/gen/init_pb.js', rule: 'R2-internal-never-looks-up' },
  { from: 'internal/role/x.test.ts', to: 'cli/a/index.ts', rule: 'R2-tests-of-internal-see-contracts-only' },
  { from: 'internal/event/x.ts', to: 'internal/role/index.ts', rule: 'R2-ground-stands-on-ground' },
  { from: 'internal/file/x.ts', to: 'internal/role/index.ts', rule: 'R2-ports-know-no-domain' },
  { from: 'initproto/gen/init_pb.js', to: 'internal/role/index.ts', rule: 'R3-contracts-are-leaves' },
  { from: 'cli/a/y.ts', to: 'internal/role/private.ts', rule: 'R4-directories-are-entered-by-their-index' },
  { from: 'cli/main.ts', to: 'internal/role/private.ts', rule: 'R4-main-imports-indexes-only' },
  { from: 'internal/role/z.ts', to: 'internal/role/index.ts', rule: 'R5-no-import-of-the-own-index' },
  { from: 'internal/role/one.ts', to: 'internal/role/two.ts', rule: 'R6-no-cycles', cycle: true },
  { from: 'internal/role/w.ts', to: 'internal/testing/index.ts', rule: 'R7-shipped-code-imports-no-test' },
  {
    from: 'joinservice/server/w.ts',
    to: 'joinservice/testing/index.ts',
    rule: 'R7-shipped-code-imports-no-test',
  },
  { from: 'internal/role/v.ts', to: 'internal/role/fake-x.ts', rule: 'R7-shipped-code-imports-no-test' },
  { from: 'e2e/s.ts', to: 'cli/a/index.ts', rule: 'R7-stories-see-only-what-is-shipped' },
  { from: 'internal/role/u.ts', to: 'internal/role/missing.ts', rule: 'imports-resolve' },
];

/** Imports that look similar and are allowed. */
const ALLOWED: readonly (readonly [string, string])[] = [
  ['cli/a/ok.ts', 'internal/role/index.ts'],
  ['cli/a/ok2.ts', 'initproto/gen/init_pb.js'],
  ['bootstrapper/a/ok.ts', 'joinservice/curatorproto/gen/curator_pb.js'],
  ['internal/role/ok.ts', 'internal/file/index.ts'],
  ['internal/file/ok.ts', 'internal/event/index.ts'],
  ['internal/role/ok.test.ts', 'internal/testing/index.ts'],
  ['internal/role/ok2.test.ts', 'initproto/gen/init_pb.js'],
  ['cli/commands/ok.ts', 'cli/app/command.ts'],
  ['e2e/ok.ts', 'internal/role/index.ts'],
];

const NOT_WRITTEN = 'internal/role/missing.ts';

describe('import rules', () => {
  let tree: string;
  let violations: readonly {
    readonly from: string;
    readonly to: string;
    readonly rule: { readonly name: string };
  }[];

  beforeAll(() => {
    tree = mkdtempSync(join(tmpdir(), 'cluster-rules-'));
    const imports = new Map<string, string>();
    for (const [from, to] of ALLOWED) imports.set(from, `import '${relativeTo(from, to)}';\n`);
    for (const { from, to, cycle } of REFUSED) {
      const typesOf = (at: string, path: string): string =>
        `import type { X } from '${relativeTo(at, path)}';\n`;
      imports.set(from, cycle === true ? typesOf(from, to) : `import '${relativeTo(from, to)}';\n`);
      if (cycle === true) imports.set(to, typesOf(to, from));
    }
    const targets = [...ALLOWED.map(([, to]) => to), ...REFUSED.map(({ to }) => to)];
    for (const to of targets) if (!imports.has(to) && to !== NOT_WRITTEN) imports.set(to, '');
    for (const [path, text] of imports) {
      mkdirSync(dirname(join(tree, path)), { recursive: true });
      writeFileSync(join(tree, path), path.endsWith('.js') ? text : `${text}export type X = 1;\n`);
    }
    for (const name of ['.dependency-cruiser.mjs', 'tsconfig.json', 'package.json']) {
      copyFileSync(join(ROOT, name), join(tree, name));
    }
    symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
    const directories = ['cli', 'bootstrapper', 'joinservice', 'initproto', 'internal', 'e2e'];
    const { stdout } = spawnSync(
      join(ROOT, 'node_modules/.bin/depcruise'),
      ['--config', '.dependency-cruiser.mjs', '--output-type', 'json', ...directories],
      { cwd: tree, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
    );
    ({ violations } = (JSON.parse(stdout) as { summary: { violations: typeof violations } }).summary);
  }, 60_000);
  afterAll(() => rmSync(tree, { recursive: true, force: true }));

  test.each(REFUSED)('the rule $rule refuses $from → $to', ({ from, to, rule }) => {
    const names = violations.filter(
      (each) => each.from === from && each.to.endsWith(to.split('/').at(-1) ?? to),
    );
    expect(names.map((each) => each.rule.name)).toContain(rule);
  });

  test.each(ALLOWED)('the import rules allow %s → %s', (from) => {
    expect(violations.filter((each) => each.from === from)).toEqual([]);
  });
});

function relativeTo(from: string, to: string): string {
  return `${'../'.repeat(from.split('/').length - 1) || './'}${to}`;
}
