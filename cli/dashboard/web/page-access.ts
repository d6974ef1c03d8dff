import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** What a request asks for; every part is chosen by the peer. */
export interface PageRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** What the server answers. */
export type Decision =
  | { readonly kind: 'refuse'; readonly status: 400 | 401 | 403 | 404 | 405 | 421; readonly why: string }
  /** The token was right: the browser gets its cookie and goes on to the page. */
  | { readonly kind: 'admit'; readonly cookie: string; readonly location: string }
  | { readonly kind: 'serve'; readonly path: string; readonly query: URLSearchParams };

/** Names by which a browser on this machine, or behind `ssh -L`, reaches a server on the loopback. */
const HOSTS: readonly string[] = ['127.0.0.1', 'localhost', '[::1]'];
const MAX_URL_CHARS = 2_048;
const COOKIE = 'cluster-dashboard';
const USED =
  'Open the address that `cluster dashboard --web` has printed. It works once; run the command again for a new one.';

/**
 * Who may see the page. The token of the printed address works once: the first browser that shows it gets a cookie instead. The page
 * has a random path, and the cookie is sent to this path only, because browsers do not keep the cookies of one port from the
 * other servers of a machine.
 */
export class PageAccess {
  readonly #token = secret();
  readonly #cookie = secret();
  readonly #home = `/${secret()}/`;
  #isUsed = false;

  /** Path and query of the address to print. */
  get address(): string {
    return `/?token=${this.#token}`;
  }

  /** Whether a browser has used the token. */
  get isUsed(): boolean {
    return this.#isUsed;
  }

  /** Decides about a request. Nothing but a GET of a browser that is at this server is answered. */
  decide({ method, url, headers }: PageRequest): Decision {
    if (method !== 'GET') return refuse(405, 'Only GET is served: nothing can be changed here.');
    // A page of another site can give its own name this address (DNS rebinding); the browser still sends that name.
    if (!isLoopback(headers.host))
      return refuse(421, 'This server answers only to names of the loopback address.');
    const site = headers['sec-fetch-site'] ?? 'none';
    if (site !== 'none' && site !== 'same-origin')
      return refuse(403, 'Requests from other pages are refused.');
    const target = url.length <= MAX_URL_CHARS ? URL.parse(url, 'http://127.0.0.1') : null;
    if (target === null || !url.startsWith('/')) return refuse(400, 'The address is invalid.');
    if (target.pathname === '/') return this.#admit(target.searchParams.get('token') ?? '');
    if (!isSame(cookieOf(headers.cookie), this.#cookie)) return refuse(401, USED);
    if (!target.pathname.startsWith(this.#home)) return refuse(404, 'There is no such page.');
    return { kind: 'serve', path: target.pathname.slice(this.#home.length), query: target.searchParams };
  }

  #admit(token: string): Decision {
    if (this.#isUsed || !isSame(token, this.#token)) return refuse(401, USED);
    this.#isUsed = true;
    return {
      kind: 'admit',
      cookie: `${COOKIE}=${this.#cookie}; Path=${this.#home}; HttpOnly; SameSite=Strict`,
      location: this.#home,
    };
  }
}

function refuse(status: Extract<Decision, { kind: 'refuse' }>['status'], why: string): Decision {
  return { kind: 'refuse', status, why };
}

/** 256 random bits. */
function secret(): string {
  return randomBytes(32).toString('base64url');
}

function isLoopback(host: string | undefined): boolean {
  const name = /^(.*?)(?::[0-9]{1,5})?$/.exec(host ?? '')?.[1];
  return HOSTS.includes((name ?? '').toLowerCase());
}

function cookieOf(header: string | undefined): string {
  const pair = (header ?? '').split('; ').find((each) => each.startsWith(`${COOKIE}=`));
  return pair?.slice(COOKIE.length + 1) ?? '';
}

/** Compares hashes, so that the time tells nothing about the secret. */
function isSame(shown: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text, 'utf8').digest();
  return timingSafeEqual(digest(shown), digest(expected));
}
