/** Videos that fail, and the same task in two tabs. */

import { $, PLACES, make } from "./dom.js";

/** Find out why a video does not play, and recover if possible. */
export class Trouble {
  constructor(app) {
    this.app = app;
    this.renewed = { left: 0, right: 0 };
    this.loads = 0;
    for (const place of PLACES) {
      const { video } = app.of(place);
      video.addEventListener("error", () => this.failed(place));
      video.addEventListener("loadedmetadata", () => this.hide(place));
      if (video.error) this.failed(place);
    }
  }

  hide(place) { $(`${place}-veil`).hidden = true; }

  say(place, title, text, again) {
    const veil = $(`${place}-veil`);
    veil.replaceChildren(make("b", { textContent: title }));
    if (text) veil.append(make("span", { textContent: text }));
    if (again) {
      const button = make("button", { type: "button", className: "button", textContent: this.app.words.try_again });
      button.addEventListener("click", () => { this.hide(place); this.reload(place, true); });
      veil.append(button);
    }
    veil.hidden = false;
  }

  /** Reload a video at its last position, with a new address from the server if `renew`. */
  async reload(place, renew) {
    const { app } = this;
    const { video } = app.of(place);
    const at = app.places[place];
    try {
      if (renew) await app.refresh({});
    } catch (problem) {
      app.refused(problem);
      return;
    }
    if (app.over) return;
    video.addEventListener("loadedmetadata", () => { if (at) video.currentTime = at; }, { once: true });
    // for the same address a browser may use its cached copy of the broken video
    this.loads += 1;
    video.src = `${app.urls[place]}?again=${this.loads}`;
    video.load();
  }

  async failed(place) {
    const { app } = this;
    const { words, server } = app;
    const source = app.of(place).video.currentSrc || app.urls[place];
    app.players.pause();
    let reply;
    try {
      reply = await fetch(source, { headers: { Range: "bytes=0-1" }, credentials: "same-origin" });
    } catch {
      server.setLine("offline");
      this.say(place, words.cannot_load, words.offline, false);
      await server.pause(5000);
      this.reload(place, false);
      return;
    }
    server.setLine("online");
    if (reply.ok) {
      const type = reply.headers.get("Content-Type") || "";
      // an interrupted connection does not mean a broken video
      if (app.of(place).video.error?.code === MediaError.MEDIA_ERR_NETWORK && type.startsWith("video/")) {
        await server.pause(2000);
        this.reload(place, false);
        return;
      }
      this.say(place, words.cannot_play, words.cannot_play_what, true);
      return;
    }
    // the signed address has expired, or the server is busy
    if (performance.now() - this.renewed[place] > 20000 || !this.renewed[place]) {
      this.renewed[place] = performance.now();
      if (reply.status === 429 || reply.status >= 500) await server.pause(3000);
      await this.reload(place, true);
      return;
    }
    this.say(place, words.cannot_load, "", true);
  }
}

/** Tabs of the same task tell each other that they are open, and when the task changes. */
export class Tabs {
  constructor(app) {
    this.channel = "BroadcastChannel" in window ? new BroadcastChannel("slvmeval-task") : null;
    if (!this.channel) return;
    this.id = app.view.id;
    this.channel.addEventListener("message", ({ data }) => {
      if (data.id !== this.id || app.over) return;
      if (data.say === "hello") this.send("here");
      if (data.say === "changed") app.again();
      else app.notice(app.words.other_tab);
    });
    this.send("hello");
  }

  send(say) { this.channel?.postMessage({ id: this.id, say }); }
  changed() { this.send("changed"); }
}
