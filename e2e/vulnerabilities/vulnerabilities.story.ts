import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { test } from 'node:test';
import { ExecaRunner } from '../../internal/exec/index.ts';

const LIMIT_MS = 900_000;
const NPM = 'GHSA-test-test-test';
const GO = 'GO-2026-99999';
/** In runc; it mounts. */
const FUNCTION = { module: 'golang.org/x/sys', package: 'golang.org/x/sys/unix', name: 'Mount' };

await test('known vulnerabilities in packages and programs are found', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-story-'));
  const registry = createServer((request, response) => {
    const isAudit = request.url?.endsWith('/advisories/bulk') === true;
    response.writeHead(isAudit ? 200 : 404, { 'content-type': 'application/json' });
    response.end(isAudit ? JSON.stringify({ 'tar-stream': [advisory()] }) : '{}');
  });
  try {
    registry.listen(0, '127.0.0.1');
    await once(registry, 'listening');
    const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
    const database = await writeDatabase(directory);
    const commands = new ExecaRunner({ path: env['PATH'] ?? '' });
    const run = async (exceptions: readonly object[]) => {
      const file = join(directory, 'exceptions.json');
      await writeFile(file, JSON.stringify({ exceptions }));
      const { exitCode, stdout } = await commands.run({
        argv: [execPath, join(import.meta.dirname, 'main.ts'), '--exceptions', file],
        env: { ...env, npm_config_registry: `${url}/`, GOVULNDB: database },
        okExitCodes: [0, 1, 10],
        timeoutMs: LIMIT_MS,
        signal: AbortSignal.timeout(LIMIT_MS),
      });
      return { exitCode, lines: stdout.split('\n') };
    };

    await story.test('each is named with what has it', async (step) => {
      const { exitCode, lines } = await run([]);
      for (const line of lines) step.diagnostic(line);
      assert.equal(exitCode, 10);
      assert.ok(lines.includes(`✖ ${NPM}: tar-stream in package-lock.json`));
      assert.ok(
        lines.some((line) => line.startsWith(`✖ ${GO}: ${FUNCTION.module}@`) && line.endsWith(' in runc')),
      );
    });

    await story.test('with exceptions that have not ended, none is a problem', async () => {
      const reason = 'made for a test, and nobody can use it';
      const accepted = [NPM, GO].map((id) => ({ id, reason, until: '2099-12-31' }));
      assert.equal((await run(accepted)).exitCode, 0);
    });

    await story.test('a registry that does not answer is a failure', async () => {
      registry.close();
      registry.closeAllConnections();
      const { exitCode, lines } = await run([]);
      assert.equal(exitCode, 1);
      assert.ok(!lines.some((line) => line.startsWith('no known')));
    });
  } finally {
    registry.close();
    await rm(directory, { recursive: true, force: true });
  }
});

/** As the registry of npm answers for a package (`npm audit`, bulk advisories). */
function advisory(): object {
  return {
    ...{ id: 1, title: 'made for a test', severity: 'high', vulnerable_versions: '*' },
    ...{ url: `https://github.com/advisories/${NPM}`, cwe: [], cvss: { score: 0, vectorString: null } },
  };
}

/** A Go vulnerability database with one entry (https://go.dev/doc/security/vuln/database). */
async function writeDatabase(directory: string): Promise<string> {
  const root = join(directory, 'database');
  const modified = '2026-11-01T00:00:00Z';
  const { module: path, package: name, name: symbol } = FUNCTION;
  const files: Readonly<Record<string, unknown>> = {
    'index/db.json': { modified },
    'index/modules.json': [{ path, vulns: [{ id: GO, modified }] }],
    [`ID/${GO}.json`]: {
      ...{ schema_version: '1.3.1', id: GO, modified, published: modified, details: 'made for a test' },
      affected: [
        {
          package: { name: path, ecosystem: 'Go' },
          ranges: [{ type: 'SEMVER', events: [{ introduced: '0' }] }],
          ecosystem_specific: { imports: [{ path: name, symbols: [symbol] }] },
        },
      ],
    },
  };
  for (const [file, value] of Object.entries(files)) {
    await mkdir(join(root, file, '..'), { recursive: true });
    await writeFile(join(root, file), JSON.stringify(value));
  }
  return `file://${root}`;
}
