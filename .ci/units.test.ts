import { expect, test } from '@jest/globals';
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

test('no service of ours leaves a dump of its memory, with the keys in it, when it dies', () => {
  const found = services();
  // agent, etcd, join service, signer, balancer, relay, containerd (and through it every container), kubelet, guard
  expect(found.length).toBeGreaterThanOrEqual(9);
  expect(SERVICE_SANDBOX.split('\n')).toContain('LimitCORE=0');
  const leaving = found.filter(
    ({ text }) => !/^LimitCORE=0$/m.test(text) && !/^\$\{SERVICE_SANDBOX\}$/m.test(text),
  );
  expect(leaving.map(({ name }) => name)).toEqual([]);
});
