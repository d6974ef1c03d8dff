import { resolve } from 'node:path';
import { env } from 'node:process';
import type { BuildContext } from '../../internal/bundlebuild/index.ts';
import type { Finding } from './finding.ts';
import { parseGovulncheck } from './govulncheck.ts';
import { parseNpmAudit } from './npm-audit.ts';
import type { GoProgram } from './programs.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const LIMIT_MS = 600_000;

type Context = Pick<BuildContext, 'signal'> & {
  readonly ports: Pick<BuildContext['ports'], 'commands'>;
};

/** Asks the registry for vulnerabilities of all packages in package-lock.json. @throws Error if it does not answer */
export async function findInPackages({ ports, signal }: Context): Promise<readonly Finding[]> {
  const { stdout } = await ports.commands.run({
    argv: ['npm', 'audit', '--json'],
    ...{ cwd: ROOT, env: ownEnvironment(), timeoutMs: LIMIT_MS, signal },
    okExitCodes: [0, 1],
  });
  return parseNpmAudit(stdout);
}

/** Looks for vulnerable functions in a Go program. @throws ExecError if the database does not answer */
export async function findInProgram(
  { ports, signal }: Context,
  { name, path }: GoProgram,
  govulncheck: string,
): Promise<readonly Finding[]> {
  const database = env['GOVULNDB'] === undefined ? [] : ['-db', env['GOVULNDB']];
  const { stdout } = await ports.commands.run({
    argv: [govulncheck, '-mode', 'binary', '-format', 'json', ...database, path],
    ...{ env: ownEnvironment(), timeoutMs: LIMIT_MS, signal },
  });
  return parseGovulncheck(stdout, name);
}

/** npm and govulncheck read their settings, proxies and certificates from it. */
function ownEnvironment(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}
