import {
  parseRegistryLogins,
  serversWithCredentials,
  type RegistriesConfig,
} from '../../internal/config/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { readPrivateFile, type WorkspaceLayout } from '../workspace/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { RegistriesError } from './errors.ts';

/** "USER:PASSWORD" by server. */
export type Logins = ReadonlyMap<string, Secret<string>>;

/**
 * The credentials in registry-credentials.json; none without the file.
 * @throws RegistriesError `registries-credentials-invalid`, WorkspaceError `workspace-key-mode` if others can read the file
 */
export async function readLogins(files: FilePort, layout: WorkspaceLayout): Promise<Logins> {
  const path = layout.registryCredentials;
  const text = await readPrivateFile(files, path);
  return text === undefined ? new Map() : parseLogins(path, text.reveal());
}

/** Checks before a cluster exists that the workspace has all credentials. @throws RegistriesError */
export async function requireLogins(
  files: FilePort,
  layout: WorkspaceLayout,
  registries: RegistriesConfig,
): Promise<void> {
  const servers = serversWithCredentials(registries);
  if (servers.length === 0) return;
  selectLogins(servers, [await readLogins(files, layout)], layout);
}

/** The credentials of these servers, each from the first source that has it. @throws RegistriesError `registries-credentials-missing` */
export function selectLogins(
  servers: readonly string[],
  sources: readonly Logins[],
  { registryCredentials }: Pick<WorkspaceLayout, 'registryCredentials'>,
): Logins {
  const found = servers.map((server) => {
    const login = sources.map((source) => source.get(server)).find((each) => each !== undefined);
    return [server, login] as const;
  });
  const missing = found.flatMap(([server, login]) => (login === undefined ? [server] : []));
  if (missing.length > 0)
    throw new RegistriesError(
      'registries-credentials-missing',
      `${registryCredentials} has no credentials for ${missing.join(', ')}`,
      { details: { servers: missing } },
    );
  return new Map(found.flatMap(([server, login]) => (login === undefined ? [] : [[server, login]])));
}

/** @throws RegistriesError `registries-credentials-invalid`, without any content of the file */
export function parseLogins(source: string, text: string): Logins {
  try {
    return parseRegistryLogins(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : '';
    throw new RegistriesError('registries-credentials-invalid', `reading ${source}: ${why}`);
  }
}
