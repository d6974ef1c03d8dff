import { expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SERVICE_SANDBOX } from '../internal/platform/index.ts';

const ROOT = join(import.meta.dirname, '..');
const SHIPPED = ['{bootstrapper,joinservice,internal}/**/*.ts', '.ci/package/*.service'];

/** Every systemd service of ours as its source has it: the text from one [Unit] to the next. */
function services(): readonly { readonly name: string; readonly text: string }[] {
  const paths = SHIPPED.flatMap((pattern) => globSync(pattern, { cwd: ROOT }));
  return paths
    .filter((path) => !/\.i?test\.ts$/.test(path))
    .flatMap((path) =>
      readFileSync(join(ROOT, path), 'utf8')
        .split('[Unit]')
        .slice(1)
        .map((text, index) => ({ name: `${path}#${index}`, text }))
        .filter(({ text }) => /^\[Service\]$/m.test(text)),
    );
}

test('no systemd service writes a core dump, which would contain its keys', () => {
  const found = services();
  // Agent, fingerprint, etcd, containerd (and through it every container), kubelet, metadata guard; join service and signer
  // share one text (service-unit.ts), and so do balancer and relay (forwarder-unit.ts).
  expect(found.length).toBeGreaterThanOrEqual(8);
  expect(SERVICE_SANDBOX.split('\n')).toContain('LimitCORE=0');
  const leaving = found.filter(
    ({ text }) => !/^LimitCORE=0$/m.test(text) && !/^(?:\$\{visibility\})?\$\{SERVICE_SANDBOX\}$/m.test(text),
  );
  expect(leaving.map(({ name }) => name)).toEqual([]);
});

test('the installed CLI writes no core dump, which would contain the owner key', () => {
  const launcher = readFileSync(join(ROOT, '.ci/package/cluster'), 'utf8');
  const limits = launcher.replace(/^exec .*$/m, 'ulimit -S -c; ulimit -H -c');
  expect(execFileSync('sh', ['-c', limits], { encoding: 'utf8' })).toBe('0\n0\n');
});
