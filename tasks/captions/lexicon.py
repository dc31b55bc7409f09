"""Word lists of the rules, with all inflected forms.

The lists are deliberately small: unknown words are not recorded. Verbs and nouns are looked up by their
inflected form, since the small language model lemmatises rare words incorrectly.
"""

from __future__ import annotations

from collections.abc import Iterable


def words(text: str, separator: str | None = None) -> frozenset[str]:
    """Split a text into a set of words."""
    return frozenset(text.split(separator))


COLORS = words(
    "black white red green yellow blue brown purple pink orange gray grey violet golden gold "
    "silver beige turquoise teal cyan magenta maroon crimson scarlet lilac lavender tan navy"
)

#: Names of things in which a colour word does not mean a colour.
NO_COLOR = words(
    "orange juice, orange juices, orange tree, orange trees, orange slice, orange slices, orange peel, "
    "green onion, green onions, green tea, black tea, black pepper, white wine, red wine, brown sugar, "
    "white noise, gold medal, silver medal, green screen, white balance, black belt",
    separator=", ",
)


def _plural(noun: str) -> str:
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    if noun.endswith("f"):
        return noun[:-1] + "ves"
    if noun.endswith("fe"):
        return noun[:-2] + "ves"
    return noun + "s"


def _nouns(text: str) -> frozenset[str]:
    """Return the words and their plurals; a word after ``+`` has no plural."""
    forms = set()
    for word in text.split():
        forms.add(word.removeprefix("+"))
        if not word.startswith("+"):
            forms.update((_plural(word), word + "s"))
    return frozenset(forms)


_IRREGULAR = {
    "run": "ran run", "fly": "flew flown", "swim": "swam swum", "drive": "drove driven",
    "ride": "rode ridden", "fall": "fell fallen", "rise": "rose risen", "throw": "threw thrown",
    "swing": "swung", "spin": "spun", "go": "went gone", "come": "came come", "leave": "left",
    "creep": "crept", "leap": "leapt leaped", "slide": "slid", "sweep": "swept", "blow": "blew blown",
    "shake": "shook shaken", "catch": "caught", "bring": "brought", "sink": "sank sunk",
    "spring": "sprang sprung", "shoot": "shot", "swell": "swollen", "draw": "drew drawn",
    "shrink": "shrank shrunk", "fling": "flung", "beat": "beat beaten", "take": "took taken",
    "break": "broke broken", "bend": "bent", "wind": "wound", "burst": "burst", "kneel": "knelt",
    "sit": "sat", "stand": "stood", "eat": "ate eaten", "speak": "spoke spoken", "write": "wrote written",
    "hold": "held", "cling": "clung", "strike": "struck", "wring": "wrung", "put": "put", "set": "set",
    "lie": "lay lain",
}  # fmt: skip

_VOWELS = "aeiou"


def _verb_forms(verb: str) -> set[str]:
    stem = verb[:-1] if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) else verb
    if verb.endswith("ie"):
        ing, ed = verb[:-2] + "ying", verb + "d"
    elif verb.endswith("y") and verb[-2] not in _VOWELS:
        ing, ed = verb + "ing", verb[:-1] + "ied"
    elif stem == verb and _doubles(verb):
        ing, ed = verb + verb[-1] + "ing", verb + verb[-1] + "ed"
    else:
        ing, ed = stem + "ing", (verb + "d" if verb.endswith("e") else verb + "ed")
    return {verb, _plural(verb) if not verb.endswith("f") else verb + "s", ing, ed}


def _doubles(verb: str) -> bool:
    short = sum(letter in _VOWELS for letter in verb) == 1
    return short and len(verb) > 2 and verb[-1] not in "wxyaeiou" and verb[-2] in _VOWELS


def _verbs(text: str) -> dict[str, str]:
    """Return every form of the verbs, each with its base form."""
    forms: dict[str, str] = {}
    for verb in text.split():
        for form in _verb_forms(verb) | set(_IRREGULAR.get(verb, "").split()):
            forms.setdefault(form, verb)
    return forms


#: Verbs of motion: their subject moves in the picture.
MOTION = _verbs(
    "run walk fly swim drive ride race move travel roll slide glide float drift flow fall drop "
    "rise climb jump leap hop skip bounce bound spin rotate turn twirl whirl swirl swing sway "
    "wave flap flutter hover soar sail dive plunge tumble crash collide rush dash dart hurry "
    "scurry scamper gallop trot march stroll wander crawl creep slither chase follow circle orbit "
    "approach enter leave exit depart arrive cross pass descend ascend dance shake tremble wobble "
    "wiggle vibrate rock throw toss hurl fling kick push pull drag lift lower carry catch grab "
    "snatch pounce stretch bend duck crouch stumble trip slip skid speed accelerate stream pour "
    "spill splash drip gush spray spread scatter explode burst erupt shoot launch blow flicker "
    "ripple surge swoop wriggle waddle juggle skate ski surf cycle pedal row paddle steer nod "
    "raise straighten snap sweep emerge gather scroll shove dangle flit prance zoom cruise whisk "
    "stir dribble slam pop peep crumble collapse topple tip sink spring hurtle whip squirm twist "
    "stagger plod trudge back retreat advance open tug scrape rub scratch clap hammer beat bang "
    "pick squeeze sniff yawn blink peck nibble flee escape sprint jog come go"
)

#: With these verbs a static subject extends or stands somewhere; it does not move.
EXTENT = words(
    "run rise climb wind fall drop cross pass lead turn sweep reach follow descend ascend roll "
    "slide come go stretch spread enter leave emerge move float close open gather push shoot "
    "spring dive tip sink"
)

#: Static things; trees may sway, but a tower that "rises" does not move.
STATIC = _nouns(
    "mountain peak hill mound ridge cliff rock boulder stone tower building skyscraper house "
    "block wall roof road street path trail track bridge field meadow lawn garden forest wood "
    "valley canyon coast shore beach horizon fence pillar column arch tree trunk root bush spruce "
    "pine stairs staircase bank landscape terrain city town village skyline sky +grass castle "
    "church monument burrow cave entrance statue pole lamp sign window door line row"
)

#: Participles that mean motion before a noun ("a running dog"), unlike "sliding door".
MOVING_PARTICIPLES = words(
    "running flying falling moving flowing walking jumping swimming spinning galloping drifting "
    "floating waving crashing passing speeding dancing swirling rotating fluttering bouncing "
    "swaying leaping crawling hovering scurrying tumbling racing soaring gliding"
)

MEN = _nouns(
    "man boy gentleman guy father dad son brother husband king prince waiter actor policeman "
    "fisherman cameraman groom grandfather uncle +men +gentlemen +policemen +fishermen"
)
WOMEN = _nouns(
    "woman girl lady mother mom daughter sister wife queen princess waitress actress bride "
    "grandmother aunt +women +policewoman +policewomen"
)
PEOPLE = MEN | WOMEN | _nouns(
    "person +people child +children kid baby toddler adult teenager individual chef cook driver player "
    "worker soldier crowd couple audience host presenter dancer singer musician guitarist drummer "
    "pianist rider athlete student teacher doctor nurse officer commentator passenger runner cyclist "
    "pedestrian tourist hiker climber farmer artist painter photographer speaker contestant performer "
    "gamer vlogger youtuber swimmer surfer skier skater customer vendor friend family team bystander "
    "onlooker pilot astronaut sailor guard mechanic carpenter engineer scientist reporter interviewer "
    "guest participant spectator biker motorcyclist model barista baker butcher clerk +someone "
    "+somebody +everyone"

)  # fmt: skip

#: Pronouns that refer to a person unless an animal was just named.
PRONOUNS = {"he": "man", "she": "woman", "who": "person", "someone": "person", "somebody": "person"}

ANIMALS = _nouns(
    "animal dog puppy cat kitten bird rabbit bunny squirrel chinchilla rodent mouse +mice rat "
    "horse cow bull sheep +sheep lamb goat pig chicken hen rooster duck goose +geese fish +fish "
    "shark whale dolphin turtle tortoise snake lizard frog insect bee butterfly moth ant spider "
    "fly lion tiger bear elephant giraffe zebra monkey ape wolf fox deer +deer eagle hawk owl "
    "crow pigeon seagull gull parrot penguin seal otter camel kangaroo panda crocodile dinosaur "
    "dragon creature pony retriever hound crab octopus jellyfish swan falcon hamster hedgehog"
)

BODY_PARTS = _nouns(
    "hand arm finger thumb fist leg foot +feet knee shoulder head face eye ear nose mouth lip "
    "tooth +teeth cheek chin neck chest belly back body hair +hair tail wing paw skin forehead "
    "brow eyebrow fur beak snout limb toe elbow wrist hip hips waist muscle tongue beard mustache "
    "+eyes"
)

#: Words for the picture and its production: neither things nor places.
FRAME_WORDS = _nouns(
    "video scene camera frame shot clip image view footage picture film movie perspective angle "
    "viewpoint lens close-up closeup screen sequence montage focus transition movement motion "
    "title viewer vantage composition foreground background backdrop distance beginning end rest "
    "one other +medium +up +ups rest"
)

#: Words for positions, which are not things.
POSITION_WORDS = _nouns(
    "+left +right top bottom middle center centre front rear side edge corner half part upper "
    "lower direction way place position spot area region"
)

#: Nouns that do not name a visible thing.
ABSTRACT = _nouns(
    "time moment second minute day night morning evening afternoon +noon +dusk +dawn +daytime "
    "mood atmosphere attention sense feeling emotion expression smile grin laughter thought fear "
    "panic grief worry surprise joy anger interest effort action activity event story plot idea "
    "concept style tone color colour hue shade palette +light +lighting +sunlight +darkness "
    "+shade shadow reflection brightness contrast texture pattern detail shape size number amount "
    "kind type sort variety series set pair group row couple lot bit piece pile bunch cluster "
    "list line range form state situation condition process result effect impact use purpose "
    "reason fact case example topic subject theme message information data content context "
    "environment setting surrounding ambiance ambience vibe energy speed pace rhythm sound noise "
    "music voice song word name note order turn step look glance gaze blow stop start air space "
    "+nature weather temperature season year week month hour life world experience adventure "
    "journey trip game level point gameplay gaming conversation discussion talk speech presence "
    "appearance hint blur streak speech distance depth height length width way thing something "
    "+nothing +everything anything work job task play while +breath +sight +alarm +view reach "
    "balance hurry interior exterior shadow glow pose posture stance gesture"
)

#: Quantity nouns, which refer to the noun after "of" ("a row of trees").
QUANTITIES = _nouns(
    "group pair row couple lot number series variety piece pile bunch cluster herd flock crowd "
    "set kind type sort line stack handful array collection plate bowl glass cup bottle patch "
    "strip trio list"
)

SCENES = _nouns(
    "kitchen street beach forest wood desert mountain city park office room bedroom bathroom "
    "garden field stadium market restaurant studio highway road lake river ocean sea sky farm gym "
    "classroom school shop store church airport station cabin warehouse meadow lawn valley hill "
    "hillside jungle village town countryside cave burrow clearing landscape coast shore harbor "
    "harbour garage hall hallway corridor arena court pool playground plaza square alley sidewalk "
    "path trail tunnel bar cafe café hospital library museum theater theatre stage bank island "
    "canyon waterfall pond stream swamp +snow +outdoors +indoors +underwater +space cockpit lobby "
    "terrace balcony rooftop yard backyard courtyard driveway laboratory lab factory workshop "
    "temple castle palace skyline cityscape supermarket mall zoo aquarium basement attic "
    "racetrack track pitch rink slope savanna savannah prairie plain plateau glacier volcano bay "
    "pier dock +indoor +outdoor"
)

#: Camera moves: with these, "to the left" is the direction of the camera.
CAMERA_WORDS = words("camera view viewpoint perspective shot drone lens frame")
CAMERA_MOVES = frozenset(
    _verbs(
        "pan tilt zoom move drift creep glide track dolly rotate shift sweep rise turn swing push "
        "pull circle travel truck crane orbit float slide fly descend ascend scan follow"
    )
)

#: Verbs that do not describe an action of a person.
NO_ACTION = frozenset(
    _verbs(
        "be have seem appear feature show include contain remain stay depict suggest indicate provide "
        "create make add focus fill wear resemble represent display possess own need want belong "
        "consist become capture convey exude know think feel believe like love prefer hope mean "
        "deserve lack matter comprise"
    )
) | words("is are was were been being am 's 're has had does did do became felt thought knew made meant")

#: Third-person forms that the small model parses as nouns ("the rabbit hovers").
VERB_FORMS = frozenset(MOTION) | frozenset(
    _verbs(
        "sneer frown grin cheer watch jeer smile laugh step roar stare scowl gasp hesitate peer sing "
        "beam yawn squint breathe land lie fade kneel glance gaze wait talk change show rest glare "
        "mutter cling"
    )
)

#: Verbs after which an action is wished, planned or feared, but does not happen.
NOT_YET = frozenset(
    _verbs("want plan hope refuse prepare intend wish decide fail need expect threaten")
) | words("about ready unable likely set")

#: Verbs of location.
STAY = frozenset(
    _verbs(
        "stand lie sit hang rest stay remain wait appear grow bloom lean loom tower stretch extend rise "
        "frame line dominate surround fill cover occupy float glow shine open place position locate situate "
        "park mount pile set show see hover perch peep peek watch crouch kneel sleep live dot form curve "
        "run drift narrow close"
    )
) | words("is are was were be been being 's 're lay stood sat hung seen grew grown shown set visible")

#: Contact: "leans against a wall" does not make the wall a background.
CONTACT = frozenset(
    _verbs(
        "lean set push press rest hit bang crash bump brush rub hold throw knock beat slam fight play "
        "race strike"
    )
)

#: Words frequent in English captions only.
ENGLISH = words(
    "the and of with is are its his her their from to at while as by which that then into over "
    "there this it through against behind toward towards across who up down out off they he she "
    "has have"
)
ALSO_ENGLISH = words("a an in on")


def known_english() -> frozenset[str]:
    """Return the words that indicate English text: function words and the words of the lists above."""
    lists: Iterable[Iterable[str]] = (ENGLISH, COLORS, MOTION, PEOPLE, ANIMALS, SCENES, BODY_PARTS)
    return frozenset(word for words in lists for word in words)
