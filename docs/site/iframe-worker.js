// A browser starts no worker for a page of a file address. The search of this site asks for one: there it gets a
// frame without a picture that runs the same script and takes and sends the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...scripts) => Promise.all(scripts.map((one) => this.run(one)));
      this.ready = this.run(script);
    }

    run(script) {
      return new Promise((loaded, failed) => {
        const element = this.inside.document.createElement("script");
        Object.assign(element, { src: script, onload: loaded, onerror: failed });
        this.inside.document.body.append(element);
      });
    }

    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
