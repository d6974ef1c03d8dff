import { readText, type FilePort } from '../../internal/file/index.ts';
import { CA_FILE, MARKER, type RegistryDirectory } from './registry-files.ts';

const HOSTS_TOML = 'hosts.toml';

/** The result of `writeRegistries()`, as names of directories. */
export interface WrittenRegistries {
  readonly changed: readonly string[];
  /** Directories that were not changed, because an operator made them. */
  readonly foreign: readonly string[];
}

/**
 * Makes the agent's directories in certs.d match the configuration. Never changes a directory that somebody else has
 * made. After a crash the next call completes the work: at each moment, a hosts.toml names only CA files that exist.
 */
export async function writeRegistries(
  files: FilePort,
  root: string,
  wanted: readonly RegistryDirectory[],
): Promise<WrittenRegistries> {
  const changed: string[] = [];
  const foreign: string[] = [];
  await files.makeDirectory(root, 0o755);
  const names = await files.list(root);
  for (const directory of wanted) {
    const present = [directory.name, ...directory.aliases].filter((name) => names.includes(name));
    const owners = await Promise.all(present.map((name) => isOurs(files, `${root}/${name}`)));
    if (owners.includes(false)) foreign.push(directory.name);
    else if (await writeDirectory(files, `${root}/${directory.name}`, directory))
      changed.push(directory.name);
  }
  const kept = new Set(wanted.map(({ name }) => name));
  for (const name of names) {
    if (kept.has(name) || !(await isOurs(files, `${root}/${name}`))) continue;
    await removeDirectory(files, `${root}/${name}`);
    changed.push(name);
  }
  return { changed, foreign };
}

/** Removes all directories of the agent, with the passwords in them. */
export async function removeRegistries(files: FilePort, root: string): Promise<void> {
  if ((await files.stat(root))?.kind === 'directory') await writeRegistries(files, root, []);
}

/**
 * Whether the agent made a directory. A directory without a hosts.toml is the agent's if it contains only CA files,
 * because an interrupted write leaves only these.
 */
async function isOurs(files: FilePort, path: string): Promise<boolean> {
  if ((await files.stat(path))?.kind !== 'directory') return false;
  const text = await readText(files, `${path}/${HOSTS_TOML}`);
  if (text !== undefined) return text.startsWith(`${MARKER}\n`);
  return (await files.list(path)).every((name) => CA_FILE.test(name));
}

async function writeDirectory(
  files: FilePort,
  path: string,
  { hostsToml, cas }: RegistryDirectory,
): Promise<boolean> {
  const text = hostsToml.reveal();
  let isChanged = false;
  await files.makeDirectory(path, 0o755);
  for (const [name, ca] of cas) {
    if ((await readText(files, `${path}/${name}`)) === ca) continue;
    await files.writeAtomic(`${path}/${name}`, ca, { mode: 0o644 });
    isChanged = true;
  }
  if ((await readText(files, `${path}/${HOSTS_TOML}`)) !== text) {
    await files.writeAtomic(`${path}/${HOSTS_TOML}`, text, { mode: 0o600 });
    isChanged = true;
  }
  for (const name of await files.list(path))
    if (CA_FILE.test(name) && !cas.has(name)) await files.remove(`${path}/${name}`);
  return isChanged;
}

/**
 * Deletes a directory of the agent, the hosts.toml first: if the deletion is interrupted, only CA files remain, which
 * identify the directory as the agent's. Keeps files that an operator has added.
 */
async function removeDirectory(files: FilePort, path: string): Promise<void> {
  const added = (await files.list(path)).filter((name) => name !== HOSTS_TOML && !CA_FILE.test(name));
  await files.remove(`${path}/${HOSTS_TOML}`);
  if (added.length === 0) return files.remove(path);
  for (const name of await files.list(path)) if (CA_FILE.test(name)) await files.remove(`${path}/${name}`);
}
