/**
 * Writes `e2e/bench/disk/packages.lock.json`: the Debian packages that the guest of `npm run bench -- disk` has in addition to those
 * of images. Run it on Debian 12 after `apt-get update`, then the bench.
 */
import { resolve } from 'node:path';
import { pinnedPackages } from '../internal/image/index.ts';
import { closureOf, writeLock } from './debian-packages.ts';

const LOCK = resolve(import.meta.dirname, '../e2e/bench/disk/packages.lock.json');
const WANTED = ['busybox-static', 'fio'];
/** What fio needs for installation and plots only, and what an image has. */
const LEFT_OUT = new Set([
  ...['adduser', 'debconf', 'init-system-helpers', 'python3'],
  ...pinnedPackages().packages.map(({ name }) => name),
]);

const names = [...closureOf(WANTED, LEFT_OUT)].sort();
writeLock(LOCK, names);
process.stdout.write(`${names.length} packages\n`);
