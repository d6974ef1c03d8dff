import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ESLint } from 'eslint';
import tseslint from 'typescript-eslint';
import { unknownMembers } from './unknown-members.ts';

const TYPES = `
interface Options { readonly name: string; readonly seedDirectory?: string }
declare function start(options: Options): void;
declare function startAny(options: object): void;
declare const seed: string | undefined;
`;

let directory: string;
let eslint: ESLint;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'unknown-members-'));
  writeFileSync(join(directory, 'tsconfig.json'), '{"compilerOptions":{"strict":true},"include":["*.ts"]}');
  eslint = new ESLint({
    cwd: directory,
    overrideConfigFile: true,
    overrideConfig: {
      files: ['**/*.ts'],
      languageOptions: {
        parser: tseslint.parser,
        parserOptions: { projectService: true, tsconfigRootDir: directory },
      },
      plugins: { cluster: { rules: { 'unknown-members': unknownMembers } } },
      rules: { 'cluster/unknown-members': 'error' },
    },
  });
});

afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function problemsOf(code: string): Promise<readonly string[]> {
  const path = join(directory, 'code.ts');
  writeFileSync(path, TYPES + code);
  const results = await eslint.lintFiles([path]);
  return results.flatMap(({ messages }) => messages.map(({ message }) => message));
}

test.each([
  ['a literal behind a condition in a spread', `start({ name: 'n', ...(seed ? { seedDir: seed } : {}) });`],
  ['a literal behind && in a spread', `start({ name: 'n', ...(seed && { seedDir: seed }) });`],
  ['a variable that is passed', `const options = { name: 'n', seedDir: seed }; start(options);`],
  ['a variable that is spread', `const more = { seedDir: seed }; start({ name: 'n', ...more });`],
  [
    'a variable that is returned',
    `function f(): Options { const o = { name: 'n', seedDir: seed }; return o; }`,
  ],
  [
    'a variable that is a member',
    `const options = { name: 'n', seedDir: seed }; const all: { first: Options } = { first: options };`,
  ],
])('a member with its old name is refused in %s', async (_, code) => {
  expect(await problemsOf(code)).toEqual([expect.stringContaining('"seedDir" is not a member')]);
});

test.each([
  ['a known member in a spread', `start({ name: 'n', ...(seed ? { seedDirectory: seed } : {}) });`],
  [
    'a variable that sets all optional members',
    `const o = { name: 'n', seedDirectory: 's', more: 1 }; start(o);`,
  ],
  [
    'a value of a declared type',
    `interface More extends Options { more: number } declare const m: More; start(m);`,
  ],
  ['a target that takes any member', `const o = { seedDir: seed }; startAny({ ...o, ...{ more: 1 } });`],
])('%s is accepted', async (_, code) => {
  expect(await problemsOf(code)).toEqual([]);
});
